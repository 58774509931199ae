import { setTimeout as sleep } from 'node:timers/promises';
import { withVerdicts } from '../answer.ts';
import type { Verdict } from '../verdict.ts';
import type { Answer, Charge, Mode } from '../store.ts';
import type { Items } from './items.ts';
import type { Queue } from './slot-queues.ts';
import { placesBySlot } from './slots.ts';

/** The charges of a decision whose keys are in one slot, and so are decided as one. */
interface Part {
  /** Where its charges stand among the decision's. */
  readonly places: readonly number[];
  readonly charges: readonly Charge[];
  readonly keys: readonly string[];
}

/**
 * Decisions over several slots of a cluster, where no script can decide all charges as one. Slots are charged one after
 * the other, in the order of their first limits; at the first that refuses, what the earlier ones took is given back.
 * So no budget is ever exceeded; while a request holds what it will give back, another may be refused that would
 * have been admitted. Limits that refuse often are best put first: they cost one call then.
 *
 * A process that dies in between, or a slot that cannot be reached any more, leaves units charged. A `hashTag` avoids
 * all this.
 */
export class Spread {
  private readonly queue: Queue;
  private readonly items: Items;
  private readonly deadlineMs: number;

  constructor(queue: Queue, items: Items, deadlineMs: number) {
    this.queue = queue;
    this.items = items;
    this.deadlineMs = deadlineMs;
  }

  /** Decides charges whose keys are `keys`, all of it within one deadline. */
  async decide(charges: readonly Charge[], keys: readonly string[], mode: Mode): Promise<Answer> {
    const places = placesBySlot(keys);
    if (places.length <= 1) return this.queue.run(this.items.decision(charges, keys, mode));
    const parts = places.map((group): Part => ({
      places: group,
      charges: group.map((place) => charges[place] as Charge),
      keys: group.map((place) => keys[place] as string),
    }));
    const outcome = new Outcome();
    const madeAt = performance.now();
    if (mode === 'peek') {
      await Promise.all(
        parts.map(async (part) => outcome.add(part, await this.ask(part, mode, madeAt))),
      );
      return outcome.answer();
    }
    await this.takeInOrder(parts, mode, madeAt, outcome);
    return outcome.answer();
  }

  private ask(part: Part, mode: Mode, madeAt: number): Promise<Answer> {
    return this.queue.run(this.items.decision(part.charges, part.keys, mode), madeAt);
  }

  private async takeInOrder(
    parts: readonly Part[],
    mode: Mode,
    madeAt: number,
    outcome: Outcome,
  ): Promise<void> {
    const firm = parts.filter(({ charges }) => charges.some(({ shadow }) => !shadow));
    const taken: Part[] = [];
    try {
      for (const part of firm) {
        const answer = await this.ask(part, mode, madeAt);
        outcome.add(part, answer);
        if (!answer.admitted) return await this.giveUp(parts, taken, mode, madeAt, outcome);
        taken.push(part);
      }
    } catch (error) {
      // Nobody waits for this: the call has failed, and its deadline may be over. What fails shows in the store's health.
      for (const part of taken) this.undo(part).catch(() => undefined);
      throw error;
    }
    // They cannot refuse, so that what fails here leaves the decision as it is.
    const shadows = parts.filter((part) => !firm.includes(part));
    await outcome.addAll(shadows, (part) => this.ask(part, mode, madeAt));
  }

  /** After a refusal: gives back what was taken, and asks the rest how it stands. */
  private async giveUp(
    parts: readonly Part[],
    taken: readonly Part[],
    mode: Mode,
    madeAt: number,
    outcome: Outcome,
  ): Promise<void> {
    const unasked = parts.filter((part) => !outcome.knows(part));
    const judged = async (part: Part, peeked: Promise<Answer>): Promise<Answer> =>
      mode === 'charge' ? unconditional(part, await peeked) : peeked;
    const answers = Promise.all([
      outcome.addAll(taken, (part) => judged(part, this.undo(part))),
      outcome.addAll(unasked, (part) => judged(part, this.ask(part, 'peek', madeAt))),
    ]);
    // The refusal stands, so that it waits for no more than its deadline.
    const over = new AbortController();
    const leftMs = Math.max(0, this.deadlineMs - (performance.now() - madeAt));
    const expiry = sleep(leftMs, undefined, { signal: over.signal }).catch(() => undefined);
    await Promise.race([answers, expiry]);
    over.abort();
  }

  /** Gives back what a part took, with a deadline of its own. The answer is that of a peek right afterwards. */
  private async undo({ charges, keys }: Part): Promise<Answer> {
    try {
      return await this.queue.run(this.items.undoing(charges, keys));
    } finally {
      for (const charge of charges) charge.receipt = undefined;
    }
  }
}

/** What a peek would have answered about a charge that is made even into debt. */
function unconditional({ charges }: Part, answer: Answer): Answer {
  const verdicts = answer.verdicts.map((verdict, index): Verdict =>
    charges[index]?.rule.overdraws === true
      ? { ...verdict, allowed: true, reason: 'ok', retryAfterMs: 0 }
      : verdict,
  );
  return withVerdicts(answer, verdicts);
}

/** What the parts of a decision say together. */
class Outcome {
  private readonly answers = new Map<Part, Answer>();
  private failure: unknown;

  /** A later answer of a part takes the place of an earlier one, as far as the verdicts go. */
  add(part: Part, answer: Answer): void {
    this.answers.set(part, answer);
  }

  /** Adds the answers of those that do answer, and notes the failure of others. */
  async addAll(parts: readonly Part[], ask: (part: Part) => Promise<Answer>): Promise<void> {
    await Promise.all(
      parts.map(async (part) => {
        try {
          this.add(part, await ask(part));
        } catch (error) {
          this.failure = error;
        }
      }),
    );
  }

  knows(part: Part): boolean {
    return this.answers.has(part);
  }

  answer(): Answer {
    let [admitted, at, delay] = [true, 0, 0];
    const verdicts: Verdict[] = [];
    for (const [part, answer] of this.answers) {
      admitted &&= answer.admitted;
      at = Math.max(at, answer.at);
      delay = Math.max(delay, answer.delay);
      for (const [index, place] of part.places.entries()) {
        verdicts[place] = answer.verdicts[index] as Verdict;
      }
    }
    // A place stays empty when its limit could not be asked any more.
    const known = verdicts.filter((verdict) => verdict !== undefined);
    return { admitted, at, delay: admitted ? delay : 0, verdicts: known, failure: this.failure };
  }
}
