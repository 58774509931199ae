import {
  type DecisionEvent,
  type LeaseEvent,
  onEvent,
  type StoreCallEvent,
  type StoreErrorEvent,
} from '../events.ts';
import { type CounterName, COUNTERS, type GaugeName } from './definitions.ts';
import { Living } from './living.ts';
import { Names, type Sample, Series } from './series.ts';

/** Names of limits, and of stores, that metrics tell apart; the rest are counted together. */
const MOST_LIMITS = 500;
const MOST_STORES = 20;

/** A call to a store, as a histogram takes it. */
export interface TimedCall {
  readonly labels: { readonly store: string; readonly outcome: 'ok' | 'error' };
  readonly seconds: number;
}

/** Counts what events tell, from when it is made until it is stopped. */
export class Tally {
  private readonly counters: Readonly<Record<CounterName, Series>>;
  private readonly living = new Living();
  private readonly limits = new Names(MOST_LIMITS);
  private readonly stores = new Names(MOST_STORES);
  /** An error that several limiters on a store meet is one fault. */
  private readonly met = new WeakSet<object>();
  private readonly ends: readonly (() => void)[];

  constructor(onCall: (call: TimedCall) => void) {
    const series = Object.entries(COUNTERS).map(([name, { labels }]) => [name, new Series(labels)]);
    this.counters = Object.fromEntries(series) as Record<CounterName, Series>;
    this.ends = [
      onEvent('tollgate:decision', (event) => this.decided(event)),
      onEvent('tollgate:store-error', (event) => this.failed(event)),
      onEvent('tollgate:store-call', (event) => onCall(this.timed(event))),
      onEvent('tollgate:lease', (event) => this.leased(event)),
    ];
  }

  counted(name: CounterName): Iterable<Sample> {
    return this.counters[name].samples();
  }

  read(name: GaugeName): Iterable<Sample> {
    return name === 'memoryKeys'
      ? this.living.keys()
      : this.living.states((store) => this.nameOf(store));
  }

  stop(): void {
    for (const end of this.ends) end();
  }

  private decided({ decision, limiter }: DecisionEvent): void {
    this.living.add(limiter);
    const { decisions, degraded, verdicts } = this.counters;
    const outcome = outcomeOf(decision);
    decisions.add(1, outcome, decision.source);
    if (decision.degraded) degraded.add(1, outcome);
    for (const verdict of decision.verdicts) {
      const mode = verdict.shadow ? 'shadow' : 'enforce';
      verdicts.add(1, this.limits.of(verdict.name), outcomeOf(verdict), mode);
    }
  }

  private failed({ error, limiter }: StoreErrorEvent): void {
    this.living.add(limiter);
    if (typeof error === 'object' && error !== null) {
      if (this.met.has(error)) return;
      this.met.add(error);
    }
    this.counters.storeErrors.add(1, this.nameOf(limiter.store));
  }

  private timed({ name, durationMs, error }: StoreCallEvent): TimedCall {
    const outcome = error === undefined ? 'ok' : 'error';
    return { labels: { store: this.stores.of(name), outcome }, seconds: durationMs / 1_000 };
  }

  private leased({ name, event, units }: LeaseEvent): void {
    const limit = this.limits.of(name);
    this.counters.leases.add(1, limit, event);
    this.counters.leasedUnits.add(units, limit, event);
  }

  private nameOf({ name }: DecisionEvent['limiter']['store']): string {
    return this.stores.of(name ?? 'store');
  }
}

function outcomeOf({ allowed, reason }: { allowed: boolean; reason: string }): string {
  return allowed ? 'admitted' : reason;
}
