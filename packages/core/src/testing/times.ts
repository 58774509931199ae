import { strict as assert } from 'node:assert';
import { leakyBucket, type Policy, tokenBucket } from '../policy.ts';
import { COUNTING, EVERY, forEach } from './policies.ts';
import { type Law, MICROSECOND, type OneLimit, only, type Trial } from './trial.ts';

const QUOTA = 3;
const HOUR_MS = 3_600_000;

/** Throws unless the wait that a refusal announced is exact, to the microsecond. */
async function expectExactWait(trial: Trial, limit: OneLimit, cost: number): Promise<void> {
  const { retryAfterMs } = await limit.exhaust(cost);
  assert.ok(retryAfterMs > 0 && retryAfterMs < Infinity, `a wait, got ${retryAfterMs}`);
  trial.clock.advance(retryAfterMs - MICROSECOND);
  const early = only(await limit.consume(cost));
  assert.equal(early.allowed, false, 'a microsecond early it is refused');
  assert.equal(early.retryAfterMs, MICROSECOND, 'and told to wait for that microsecond');
  trial.clock.advance(MICROSECOND);
  assert.equal((await limit.consume(cost)).allowed, true, 'after the wait it is admitted');
}

/** Two units charged at different instants. */
async function charged(trial: Trial, limit: OneLimit): Promise<void> {
  await limit.consume();
  trial.clock.advance(1.234);
  await limit.consume();
}

/** The longest that a key may be locked out: a refill, or until nothing of a full window counts any more. */
function longestMs(policy: Policy): number {
  if ('per' in policy) return Math.ceil((policy.capacity * policy.per) / policy.rate);
  return 'window' in policy ? 2 * policy.window : policy.slotTimeout;
}

/** When a cost is admitted, and when a key is whole. */
export const TIMES: readonly Law[] = [
  ...forEach(
    EVERY,
    'who waits as long as told is admitted, and not sooner',
    async (trial, make) => {
      const limit = trial.one(make(QUOTA));
      await charged(trial, limit);
      for (let times = 0; times < 4; times++) await expectExactWait(trial, limit, 1);
    },
  ),
  ...forEach(COUNTING, 'so it is for greater costs', async (trial, make) => {
    const limit = trial.one(make(QUOTA));
    for (const cost of [2, QUOTA, 1, QUOTA]) await expectExactWait(trial, limit, cost);
  }),
  ...forEach(
    EVERY,
    'a key is whole when it was said to be, and not sooner',
    async (trial, make) => {
      const limit = trial.one(make(QUOTA));
      await charged(trial, limit);
      const { resetAfterMs } = await limit.peek();
      trial.clock.advance(resetAfterMs - MICROSECOND);
      const early = await limit.peek();
      assert.equal(early.resetAfterMs, MICROSECOND, 'a microsecond early that much is left');
      trial.clock.advance(MICROSECOND);
      await limit.expectWhole('once it was said to be');
    },
  ),
  ...forEach(EVERY, 'one more unit is there when it was said to be', async (trial, make) => {
    const limit = trial.one(make(QUOTA));
    await charged(trial, limit);
    const { remaining, nextAfterMs } = await limit.peek();
    trial.clock.advance(nextAfterMs - MICROSECOND);
    await limit.expectRemaining(remaining, 'a microsecond early');
    trial.clock.advance(MICROSECOND);
    assert.ok((await limit.peek()).remaining > remaining, 'more remains after nextAfterMs');
  }),
  ...forEach(
    EVERY,
    'a clock that steps back frees nothing and locks nobody out',
    async (trial, make) => {
      const limit = trial.one(make(QUOTA));
      const { policy } = await limit.exhaust();
      trial.clock.advance(-HOUR_MS);
      const back = only(await limit.consume());
      assert.equal(back.allowed, false, 'what was charged stays charged');
      assert.ok(
        back.retryAfterMs <= longestMs(policy),
        `a wait of ${back.retryAfterMs} ms is too long`,
      );
      trial.clock.advance(back.retryAfterMs - MICROSECOND);
      assert.equal((await limit.consume()).allowed, false, 'a microsecond early it is refused');
      trial.clock.advance(MICROSECOND);
      assert.equal((await limit.consume()).allowed, true, 'after the wait it is admitted');
    },
  ),
  {
    name: 'a decision says when it was made, also after a step back',
    hold: async (trial) => {
      const limit = trial.one(tokenBucket({ capacity: 9, rate: 1, per: '1s' }));
      for (const ms of [0, MICROSECOND, 1.5, -HOUR_MS, 0, 2 * HOUR_MS]) {
        trial.clock.advance(ms);
        assert.equal((await limit.consume()).atMs, trial.clock() / 1_000);
      }
    },
  },
  {
    name: 'a leaky bucket holds a request until what was before it has drained',
    hold: async (trial) => {
      const limit = trial.one(leakyBucket({ capacity: 5, rate: 3, per: '1s' }));
      const delays: number[] = [];
      for (const cost of [1, 2, 1, 1]) delays.push((await limit.consume(cost)).delayMs);
      assert.deepEqual(delays, [0, 333.334, 1_000, 1_333.334]);
      assert.equal((await limit.consume()).delayMs, 0, 'who is refused is not held');
    },
  },
];
