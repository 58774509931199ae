import type { ServerResponse } from 'node:http';
import type { BookedCharge } from '../booking.ts';
import type { Decision } from '../decision.ts';
import type { Limiter } from '../limiter.ts';
import type { MaybePromise } from '../maybe-promise.ts';
import { isGone } from './leaving.ts';
import { counterOf, withoutCounters } from './open-reservations.ts';
import { TollgateClosedGateError } from './refusal.ts';
import { Reservations, type Woken } from './reservations.ts';

/** Decides among requests that may have to wait for the outcomes of others, in order of arrival. */
export class Turns {
  readonly reservations: Reservations;
  private readonly limiter: Limiter;
  private readonly maxWaitMs: number;
  private isClosed = false;

  constructor(limiter: Limiter, maxWaiting: number, maxWaitMs: number) {
    this.limiter = limiter;
    this.reservations = new Reservations(limiter.store, maxWaiting);
    this.maxWaitMs = maxWaitMs;
  }

  /**
   * Decides a request once it is its turn.
   *
   * @param reserved those of the charges that may be given back.
   * @param conclude what is done with the decision.
   */
  async decide(
    charges: readonly BookedCharge[],
    reserved: readonly BookedCharge[],
    response: ServerResponse,
    conclude: (decision: Decision) => MaybePromise<Decision | undefined | 'gone'>,
  ): Promise<Decision | undefined | 'gone'> {
    const { reservations } = this;
    const counters = this.countersOf(reserved);
    const all = [...charges, ...counters];
    const ticket = reservations.ticket();
    const deadline = performance.now() + this.maxWaitMs;
    // In whose line it was woken last, and why. Whoever is next there is told when this one needs no more of it.
    let woken: { readonly line: BookedCharge; readonly by: Woken } | undefined;
    const waits = async (line: BookedCharge, refusal?: Decision): Promise<boolean> => {
      const leftMs = deadline - performance.now();
      const turn = reservations.turn(line, leftMs, ticket, response, refusal);
      if (turn === undefined) return false;
      woken = undefined;
      const by = await turn;
      if (this.isClosed) throw new TollgateClosedGateError();
      if (by !== undefined) woken = { line, by };
      return by !== undefined;
    };
    const awaited = charges.find((charge) => reservations.isAwaited(charge));
    if (awaited !== undefined) await waits(awaited);
    let outcome: Decision | undefined | 'gone' = 'gone';
    try {
      while (!isGone(response)) {
        let decision = await this.limiter.decide(all, 'attempt', false);
        const refusing = charges.find(({ name }) => isRefusedBy(decision, name));
        if (refusing !== undefined) {
          if (reservations.mayChange(decision) && (await waits(refusing, decision))) continue;
          // Refused for good, which counts towards a ban.
          if (charges.some(({ ban }) => ban !== undefined)) {
            decision = await this.limiter.decide(all, 'consume', false);
          }
        }
        outcome = await conclude(counters.length === 0 ? decision : withoutCounters(decision));
        break;
      }
      return outcome;
    } finally {
      const isServed = outcome !== 'gone' && outcome?.allowed === true;
      // Of what other processes gave back there may be enough for several.
      if (woken !== undefined && !(isServed && woken.by === 'outcome')) {
        reservations.pass(woken.line, woken.by);
      }
    }
  }

  /** Refuses those who wait with an error. */
  close(): void {
    this.isClosed = true;
    this.reservations.end();
  }

  /** A store in this process need not be told of what is known here. */
  private countersOf(reserved: readonly BookedCharge[]): BookedCharge[] {
    if (!this.limiter.store.async) return [];
    return reserved.filter(({ shadow, cost }) => !shadow && cost > 0).map(counterOf);
  }
}

function isRefusedBy({ verdicts }: Decision, name: string): boolean {
  return verdicts.some((each) => each.name === name && !each.allowed && !each.shadow);
}
