import type { ServerResponse } from 'node:http';
import { Decision } from '../decision.ts';
import { type BookedCharge, correct } from '../booking.ts';
import { allDone, type MaybePromise } from '../maybe-promise.ts';
import { whenOver } from './leaving.ts';

/** One name for all copies of this module, so that an ESM and a CommonJS gate know of one another. */
const VISIT = Symbol.for('tollgate.visit');

/** What most visits have none of. */
const NONE: readonly never[] = Object.freeze([]);

/** Stands for the status of a request that went away before it was answered in full. */
const UNANSWERED = 499;

/** A charge that only counts for some outcomes of the request. */
export interface Provisional {
  readonly charge: BookedCharge;
  readonly counts: (status: number) => boolean;
  /** Called once the outcome is known and the charge settled. */
  readonly known: () => void;
}

/**
 * What one request has met so far: the decisions of every gate and stage it passed, so that no limit is charged twice,
 * a refusal undoes all of them, and the headers of all are rendered as one.
 */
export class Visit {
  /** In the order made. */
  decisions: readonly Decision[] = NONE;
  charges: readonly BookedCharge[] = NONE;
  private provisional: readonly Provisional[] = NONE;
  private watched = false;
  private answered = false;

  /**
   * The visit of a request, which starts with the first gate. It goes with the headers as they came: a property of the
   * request itself would take microseconds in Express, which gives each request a shape that V8 has never seen.
   */
  static of(rawHeaders: readonly string[]): Visit {
    return ((rawHeaders as { [VISIT]?: Visit })[VISIT] ??= new Visit());
  }

  add(decision: Decision, charges: readonly BookedCharge[]): void {
    this.decisions = joined(this.decisions, [decision]);
    if (decision.allowed) this.charges = joined(this.charges, charges);
  }

  /** All decisions as one; undefined before the first. */
  decision(): Decision | undefined {
    return this.decisions.length < 2
      ? this.decisions[0]
      : this.decisions.reduce((all, next) => Decision.merge(all, next));
  }

  /** What a charge adds to what was charged for its limit on the same store already; undefined for nothing. */
  difference(charge: BookedCharge): BookedCharge | undefined {
    const before = this.charges.filter(
      ({ name, ledger }) => name === charge.name && ledger.store === charge.ledger.store,
    );
    // What can never be admitted is asked as a whole, since the difference alone would have a wait.
    if (before.length === 0 || charge.cost > charge.rule.quota) return charge;
    const cost = before.reduce((left, each) => left - each.cost, charge.cost);
    return cost > 0 ? charge.of(cost) : undefined;
  }

  /** Settles everything so far to 0 and frees the slots: the request is not served after all. */
  cancel(): MaybePromise<void> {
    if (this.charges.length === 0) return undefined;
    const done = this.decisions.map((decision) => decision.cancel());
    this.decisions = this.decisions.map((decision) => decision.undone());
    return allDone(done);
  }

  /** Settles provisional charges and frees slots once the response is over, however it ends. */
  watch(response: ServerResponse, provisional: readonly Provisional[]): void {
    this.provisional = joined(this.provisional, provisional);
    if (this.watched) return;
    this.watched = true;
    // Asked later, a response that Fastify's inject() made up would deny it.
    response.once('finish', () => {
      this.answered = true;
    });
    whenOver(response, () => this.over(response));
  }

  private over(response: ServerResponse): void {
    const answered = this.answered || response.writableFinished;
    const status = answered ? response.statusCode : UNANSWERED;
    for (const { charge, counts, known } of this.provisional) {
      if (!charge.settled && !counts(status)) void correct([{ charge, units: -charge.cost }]);
      known();
    }
    for (const decision of this.decisions) void decision.release();
  }
}

/** Both lists as one, which for most requests is the second. */
function joined<T>(first: readonly T[], second: readonly T[]): readonly T[] {
  return first.length === 0 ? second : [...first, ...second];
}
