import type { LimitOptions } from '@tollgate/core';
import { expect } from 'vitest';
import { compare, type Pair, pairOf } from '../../packages/core/test/exactness-steps.ts';
import { type Ask, type Guess, Oracle } from '../../packages/core/test/oracle.ts';
import { parsePolicy } from '../../packages/core/src/policy.ts';
import type { MemberAnswer } from './fleet.ts';

/** What one member was told at one instant: of one batch, so that nothing came between. */
interface Batch {
  readonly at: number;
  readonly answers: readonly MemberAnswer[];
}

const micros = (ms: number): number => Math.round(ms * 1_000);

function batchesOf(answers: readonly MemberAnswer[]): Batch[] {
  const batches: { at: number; answers: MemberAnswer[] }[] = [];
  for (const answer of answers) {
    const at = micros(answer.atMs);
    const last = batches.at(-1);
    if (last?.at === at) last.answers.push(answer);
    else batches.push({ at, answers: [answer] });
  }
  return batches;
}

/**
 * Replays what a fleet was told in the order of the store's time through the oracle, which must say the same, field by
 * field.
 */
export class Replay {
  private readonly pairs: ReadonlyMap<string, Pair>;
  /** Batches that another member's batch shares its instant with. */
  ties = 0;

  constructor(limits: readonly LimitOptions[]) {
    this.pairs = new Map(limits.map(({ name, policy }) => [name, pairOf(parsePolicy(policy))]));
  }

  /** @throws what differs, where no order of what happened at one instant explains every answer. */
  explain(members: readonly (readonly MemberAnswer[])[]): void {
    const batches = members.flatMap(batchesOf).toSorted((a, b) => a.at - b.at);
    // A member's own batches stay in the order of their replies, since sorting is stable.
    let possible = [new Oracle()];
    for (let from = 0; from < batches.length;) {
      let to = from + 1;
      while (batches[to]?.at === batches[from]?.at) to++;
      const together = batches.slice(from, to);
      if (together.length > 1) this.ties += together.length;
      possible = this.after(possible, together);
      from = to;
    }
  }

  /** What may be so after some batches of one instant, in any order that explains their answers. */
  private after(possible: readonly Oracle[], together: readonly Batch[]): Oracle[] {
    let why: unknown;
    const explained = possible.flatMap((oracle) =>
      orders(together).flatMap((order) => {
        const next = oracle.copy();
        try {
          for (const { at, answers } of order)
            for (const each of answers) this.tell(next, each, at);
          return [next];
        } catch (error) {
          why ??= error;
          return [];
        }
      }),
    );
    if (explained.length === 0) throw why;
    return explained;
  }

  private tell(oracle: Oracle, answer: MemberAnswer, at: number): void {
    const delay = micros(answer.delayMs);
    const charges = answer.verdicts.map(({ name, key, policy, cost, shadow }) => {
      // Every verdict is of a limit of the job.
      const { rule, terms } = this.pairs.get(name) as Pair;
      expect(policy).toEqual(rule.policy);
      const ask: Ask = { key: `${name} ${key}`, terms, cost, shadow, offset: rule.offset(key) };
      return { ask, charge: { name, key, rule, cost, shadow } };
    });
    const guesses = answer.verdicts.map((verdict): Guess => {
      const { remaining, nextAfterMs, resetAfterMs, retryAfterMs } = verdict;
      return {
        remaining,
        delay,
        nextAfter: micros(nextAfterMs),
        resetAfter: micros(resetAfterMs),
        retryAfter: micros(retryAfterMs),
      };
    });
    const asks = charges.map(({ ask }) => ask);
    const told = oracle.decide(asks, 'consume', at, guesses);
    const admitted = told.verdicts.every(({ allowed }) => allowed);
    expect(answer.allowed).toBe(admitted);
    compare(
      {
        admitted,
        at,
        delay,
        verdicts: answer.verdicts.map((verdict, index) => ({
          ...verdict,
          // The same by value, which is all that comes out of another process.
          policy: charges[index]?.charge.rule.policy ?? verdict.policy,
        })),
      },
      told,
      // Receipts stay in their process.
      charges.map(({ charge }, index) => ({
        ...charge,
        receipt: index in told.receipts ? [] : undefined,
      })),
      at,
    );
  }
}

/** All orders of some things, of which there are few. */
function orders<T>(things: readonly T[]): T[][] {
  if (things.length <= 1) return [[...things]];
  return things.flatMap((first, index) =>
    orders(things.toSpliced(index, 1)).map((rest) => [first, ...rest]),
  );
}
