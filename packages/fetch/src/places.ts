import { type Cost, type Decision, type Keys, type Limiter } from '@tollgate/core';
import type { Call } from './call.ts';
import type { RateLimitReading } from './headers/reading.ts';
import { Pace, type Patience } from './pace.ts';

/** Paces that are remembered before those that say nothing any more are forgotten. */
const MANY_PACES = 1_000;

/** Leave to send one request. */
export interface Place {
  /** What was charged for it; undefined without a limiter, or where no limit applies. */
  readonly decision: Decision | undefined;
  /** Tells how it went: what the answer says of the server's limits; undefined where there was none. */
  answered(reading: RateLimitReading | undefined): void;
}

export interface PlacesOptions {
  readonly limiter: Limiter | undefined;
  readonly keysOf: (call: Call) => Promise<Keys | undefined>;
  readonly costOf: (call: Call) => Promise<Cost | undefined>;
  readonly maxWaitMs: number;
  readonly pace: boolean;
  readonly random: () => number;
}

/** Where calls wait until they may be sent: for the limiter, and for what the server's answers have said. */
export class Places {
  private readonly options: PlacesOptions;
  private readonly paces = new Map<string, Pace>();

  constructor(options: PlacesOptions) {
    this.options = options;
  }

  /**
   * Waits for a place.
   *
   * @param mostMs how long at most; never longer than `maxWaitMs`.
   * @param first goes before those who wait already, as it has stood in line before.
   * @throws TollgateWaitError when there is none in time, and the signal's reason when it is aborted.
   */
  async take(call: Call, mostMs: number, first: boolean): Promise<Place> {
    const { pace, limiter, keysOf } = this.options;
    const maxWaitMs = Math.min(mostMs, this.options.maxWaitMs);
    const { signal } = call;
    const patience = { signal, maxWaitMs, deadline: performance.now() + maxWaitMs };
    if (limiter === undefined && !pace) return { decision: undefined, answered() {} };
    const keys = await keysOf(call);
    if (!pace) {
      const decision = await this.admit(call, keys, patience);
      return { decision, answered() {} };
    }
    return this.paced(call, keys, patience, first);
  }

  private async paced(
    call: Call,
    keys: Keys | undefined,
    patience: Patience,
    first: boolean,
  ): Promise<Place> {
    const pace = this.paceOf(call, keys);
    await pace.enter(patience, first);
    try {
      for (;;) {
        await pace.ready(patience);
        const decision = await this.admit(call, keys, patience);
        // A refusal may have come while the limiter was waited for.
        if (pace.holdMs() === 0) {
          const departure = pace.depart();
          return { decision, answered: (reading) => pace.answered(departure, reading) };
        }
        await giveBack(decision);
      }
    } finally {
      pace.leave();
    }
  }

  private async admit(
    call: Call,
    keys: Keys | undefined,
    { signal, deadline }: Patience,
  ): Promise<Decision | undefined> {
    const { limiter, costOf } = this.options;
    if (limiter === undefined || keys === undefined) return undefined;
    const cost = await costOf(call);
    return limiter.wait(keys, {
      // With no time left a place that is free is taken all the same.
      maxWaitMs: Math.max(0, deadline - performance.now()),
      signal,
      ...(cost !== undefined && { cost }),
    });
  }

  private paceOf({ url }: Call, keys: Keys | undefined): Pace {
    const own = Object.entries(keys ?? {}).map((entry) => JSON.stringify(entry));
    const name = [url.origin, ...own.toSorted()].join('\n');
    const known = this.paces.get(name);
    if (known !== undefined) return known;
    if (this.paces.size >= MANY_PACES) {
      for (const [other, { idle }] of this.paces) if (idle) this.paces.delete(other);
    }
    const pace = new Pace(this.options.random);
    this.paces.set(name, pace);
    return pace;
  }
}

/** Gives back all that was charged for a request that is not sent. */
export async function giveBack(decision: Decision | undefined): Promise<void> {
  if (decision === undefined) return;
  const charged = decision.verdicts.filter(({ policy }) => policy.algorithm !== 'concurrency');
  if (charged.length > 0) {
    await decision.settle(Object.fromEntries(charged.map(({ name }) => [name, 0])));
  }
  await decision.release();
}

/** Whether the request holds a slot, which is free again once its answer is over. */
export function holdsSlot(decision: Decision | undefined): boolean {
  return decision?.verdicts.some(({ policy }) => policy.algorithm === 'concurrency') === true;
}
