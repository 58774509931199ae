import { Leasing } from '../src/lease.ts';
import type { Rule, State } from '../src/algorithm.ts';
import { ruleOf } from '../src/algorithms/index.ts';
import type { Policy } from '../src/policy.ts';
import { grantOf, type Told } from '../src/redis/grant.ts';
import { type Ask, Lease } from '../src/redis/lease.ts';
import { Random } from '../src/testing/random.ts';

/** Many processes that share a limit, for a while of the store's time. All times are in µs. */
export interface Fleet {
  readonly policy: Policy;
  readonly processes: number;
  /** Requests of all of them per second, by chance. */
  readonly perSecond: number;
  readonly seconds: number;
}

/** What a design did. */
export interface Outcome {
  readonly admitted: readonly number[];
  readonly requests: number;
  readonly calls: number;
}

/** How processes keep to a limit: what to do about a request, and when a call comes back. */
interface Design {
  request(process: number, now: number): boolean;
  readonly calls: number;
}

const FINE = 2 ** 31;
/** From a process to the store, and back. */
const HOP = 250;

interface Event {
  readonly at: number;
  readonly run: (now: number) => void;
}

/** What happens later, the earliest first. All of it is a hop, or a period, ahead, so that few are passed over. */
class Timeline {
  private events: Event[] = [];

  add(at: number, run: Event['run']): void {
    let place = this.events.length;
    while (place > 0 && (this.events[place - 1] as Event).at > at) place--;
    this.events.splice(place, 0, { at, run });
  }

  until(now: number): void {
    for (let next = this.events[0]; next !== undefined && next.at <= now; next = this.events[0]) {
      this.events.shift();
      next.run(next.at);
    }
  }
}

/** The store: what the script does, by the rules that it has twins of. */
class Store {
  private readonly state: State;
  private readonly holders = new Map<number, number>();
  private readonly rule: Rule;

  constructor(rule: Rule) {
    this.rule = rule;
    this.state = Array.from({ length: rule.size ?? 0 }, () => 0);
  }

  consume(now: number): boolean {
    const { rule, state } = this;
    rule.roll(state, now, 0);
    if (rule.wait(state, 1, now) > 0) return false;
    rule.add(state, 1, now, 1, 0);
    return true;
  }

  grant(ask: Ask, holder: number, remembered: number, now: number): Told {
    const { rule, state, holders } = this;
    rule.roll(state, now, 0);
    for (const { receipt, units } of ask.back) rule.giveBack(state, units, now, receipt);
    rule.roll(state, now, 0);
    const free = rule.remaining(state, now);
    const units = grantOf(free, ask, () => {
      holders.set(holder, now);
      for (const [other, at] of holders) if (at <= now - remembered) holders.delete(other);
      return holders.size;
    });
    if (units > 0) rule.add(state, units, now, 1 + Math.floor(now), 0);
    return { units, free, banned: 0, at: now, state: [...state] };
  }
}

/** Every request asks. */
class EachAsks implements Design {
  calls = 0;
  private readonly store: Store;

  constructor(policy: Policy) {
    this.store = new Store(ruleOf(policy));
  }

  request(_process: number, now: number): boolean {
    this.calls++;
    return this.store.consume(now);
  }
}

/** Each process counts by itself, and tells the others from time to time: what peers do. */
class Deltas implements Design {
  calls = 0;
  private readonly total = { state: [] as State, now: 0 };
  private readonly processes: { state: State; delta: number }[];
  private readonly rule: Rule;

  constructor(rule: Rule, processes: number, period: number, timeline: Timeline) {
    this.rule = rule;
    const fresh = (): State => Array.from({ length: rule.size ?? 0 }, () => 0);
    this.total.state = fresh();
    this.processes = Array.from({ length: processes }, () => ({ state: fresh(), delta: 0 }));
    for (const [index, own] of this.processes.entries()) {
      const sync = (now: number): void => {
        timeline.add(now + period, sync);
        if (own.delta === 0) return;
        this.calls++;
        const { state } = this.total;
        rule.roll(state, now, 0);
        rule.add(state, own.delta, now, 1, 0);
        own.state = [...state];
        own.delta = 0;
      };
      timeline.add(Math.floor((period * index) / processes), sync);
    }
  }

  request(process: number, now: number): boolean {
    const own = this.processes[process] as { state: State; delta: number };
    this.rule.roll(own.state, now, 0);
    if (this.rule.wait(own.state, 1, now) > 0) return false;
    this.rule.add(own.state, 1, now, 1, 0);
    own.delta++;
    return true;
  }
}

/** The real machines. */
class Leased implements Design {
  calls = 0;
  private readonly leases: Lease[];
  private readonly waiting: number[];
  private readonly store: Store;
  private readonly remembered: number;
  private readonly timeline: Timeline;
  private readonly admit: (at: number) => void;

  constructor(
    policy: Policy,
    processes: number,
    syncMs: number,
    timeline: Timeline,
    admit: (at: number) => void,
  ) {
    this.timeline = timeline;
    this.admit = admit;
    const terms = new Leasing({ syncMs }, 'lease').of(ruleOf(policy), 'policy');
    const of = { name: 'a', key: 'k', storeKey: 'k' };
    this.store = new Store(terms.rule);
    this.remembered = 2 * terms.time;
    this.leases = Array.from({ length: processes }, () => new Lease(of, terms, 0));
    this.waiting = Array.from({ length: processes }, () => 0);
  }

  request(process: number, now: number): boolean {
    const lease = this.leases[process] as Lease;
    const taken = (this.waiting[process] ?? 0) > 0 ? 'short' : lease.take(1, now);
    if (taken === 'short') {
      this.waiting[process] = (this.waiting[process] ?? 0) + 1;
      if (!lease.isAsking) this.send(process, now);
      return false;
    }
    if (taken === 'refused') return false;
    if (lease.isLow) this.send(process, now);
    return true;
  }

  private send(process: number, now: number): void {
    const lease = this.leases[process] as Lease;
    const waiting = this.waiting[process] ?? 0;
    const ask = lease.ask(waiting > 0 ? [[waiting, 1]] : [], now);
    this.waiting[process] = 0;
    if (ask === undefined) return;
    this.calls++;
    this.timeline.add(now + HOP, (there) => {
      const told = this.store.grant(ask, process, this.remembered, there);
      this.timeline.add(there + HOP, (back) => this.arrive(process, ask, told, back));
    });
  }

  private arrive(process: number, ask: Ask, told: Told, now: number): void {
    const lease = this.leases[process] as Lease;
    const { times } = lease.granted(ask, told, now);
    for (let i = 0; i < (times[0] ?? 0); i++) this.admit(told.at);
    // Those who came meanwhile, in order.
    while ((this.waiting[process] ?? 0) > 0) {
      const taken = lease.take(1, now);
      if (taken === 'short') return this.send(process, now);
      this.waiting[process] = (this.waiting[process] ?? 0) - 1;
      if (taken !== 'refused') this.admit(now);
    }
    if (lease.isLow) this.send(process, now);
  }
}

export type DesignName = 'each asks' | { readonly deltasMs: number } | { readonly leaseMs: number };

/** Lets a fleet serve requests that come by chance. */
export function simulate(fleet: Fleet, name: DesignName, seed: number): Outcome {
  const { policy, processes, perSecond, seconds } = fleet;
  const timeline = new Timeline();
  const admitted: number[] = [];
  const admit = (at: number): void => void admitted.push(at);
  const design: Design =
    name === 'each asks'
      ? new EachAsks(policy)
      : 'deltasMs' in name
        ? new Deltas(ruleOf(policy), processes, name.deltasMs * 1_000, timeline)
        : new Leased(policy, processes, name.leaseMs, timeline, admit);
  const random = new Random(seed);
  let requests = 0;
  for (let now = 0; ; requests++) {
    now += (-Math.log(1 - random.upTo(FINE - 1) / FINE) * 1_000_000) / perSecond;
    if (now >= seconds * 1_000_000) break;
    const at = Math.floor(now);
    timeline.until(at);
    if (design.request(random.upTo(processes - 1), at)) admit(at);
  }
  return { admitted, requests, calls: design.calls };
}
