import { strict as assert } from 'node:assert';
import { leakyBucket, slidingLog, tokenBucket } from '../policy.ts';
import { COUNTING, forEach } from './policies.ts';
import { asked, type Law, MICROSECOND, only } from './trial.ts';

const QUOTA = 5;

/** Those that keep debt; a log refuses it. */
const OVERDRAWING = COUNTING.filter(([kind]) => kind !== 'sliding-log');

const charges: readonly Law[] = [
  ...forEach(COUNTING, 'a charge asks nobody', async (trial, make) => {
    const limit = trial.one(make(QUOTA));
    const { allowed, remaining } = await limit.charge(3);
    assert.deepEqual({ allowed, remaining }, { allowed: true, remaining: 2 });
  }),
  ...forEach(OVERDRAWING, 'a charge goes into debt, which time pays', async (trial, make) => {
    const limit = trial.one(make(QUOTA));
    const { allowed, remaining } = await limit.charge(QUOTA + 3);
    assert.deepEqual({ allowed, remaining }, { allowed: true, remaining: 0 });
    const nothing = only(await limit.consume(0));
    assert.equal(nothing.allowed, false, 'a cost of 0 is refused while the key is overdrawn');
    const { allowed: admitted, retryAfterMs } = only(await limit.consume(1));
    assert.equal(admitted, false, 'a request is refused while the key is overdrawn');
    trial.clock.advance(retryAfterMs - MICROSECOND);
    assert.equal((await limit.consume(1)).allowed, false, 'a microsecond early it is refused');
    trial.clock.advance(MICROSECOND);
    assert.equal((await limit.consume(1)).allowed, true, 'after the wait it is admitted');
  }),
  {
    name: 'a log refuses a charge beyond its limit',
    hold: async (trial) => {
      const limit = trial.one(slidingLog({ limit: QUOTA, window: '1m' }));
      assert.equal((await limit.charge(QUOTA - 1)).allowed, true);
      assert.equal((await limit.charge(2)).allowed, false, 'more than the limit');
      await limit.expectRemaining(1, 'after a charge that was refused');
    },
  },
];

const refunds: readonly Law[] = [
  ...forEach(COUNTING, 'a refund takes off what is owed, and no more', async (trial, make) => {
    const limit = trial.one(make(QUOTA));
    await limit.refund(2);
    await limit.expectWhole('after a refund of a key never seen');
    await limit.consume(4);
    await limit.refund(3);
    await limit.expectRemaining(4, 'after 3 of 4 units were refunded');
    await limit.refund(100);
    await limit.expectWhole('after a refund of more than it owed');
  }),
  {
    name: 'a log refunds its newest units first',
    hold: async (trial) => {
      const limit = trial.one(slidingLog({ limit: QUOTA, window: '1m' }));
      await limit.consume();
      trial.clock.advance(10_000);
      await limit.consume(2);
      await limit.refund(2);
      assert.equal((await limit.peek()).resetAfterMs, 50_000, 'the oldest unit is what is left');
    },
  },
  ...forEach(COUNTING, 'a reset forgets one key', async (trial, make) => {
    const limiter = trial.limiter([{ name: 'limit', policy: make(QUOTA) }]);
    for (const key of ['one', 'other'])
      asked(await limiter.consume({ limit: key }, { cost: QUOTA }));
    await limiter.reset({ limit: 'one' });
    await limiter.reset({ limit: 'never seen' });
    const remaining = async (key: string): Promise<number> =>
      only(asked(await limiter.peek({ limit: key }))).remaining;
    assert.deepEqual([await remaining('one'), await remaining('other')], [QUOTA, 0]);
  }),
];

const settlements: readonly Law[] = [
  ...forEach(COUNTING, 'a settlement gives back the excess, once', async (trial, make) => {
    const limit = trial.one(make(QUOTA));
    const decision = await limit.consume(4);
    await decision.settle(1);
    await limit.expectRemaining(4, 'after 4 units were settled to 1');
    await decision.settle(0);
    await limit.expectRemaining(4, 'after a second settlement');
    const other = await limit.consume(2);
    await other.settle(2);
    await limit.expectRemaining(2, 'after a settlement that changes nothing');
  }),
  ...forEach(COUNTING, 'settled to nothing, a key is as it was', async (trial, make) => {
    const limit = trial.one(make(QUOTA));
    await (await limit.consume(QUOTA)).settle(0);
    await limit.expectWhole('after a settlement to 0');
  }),
  ...forEach(COUNTING, 'a settlement charges what was reserved too low', async (trial, make) => {
    const limit = trial.one(make(QUOTA));
    await (await limit.consume(1)).settle(3);
    await limit.expectRemaining(2, 'after 1 unit was settled to 3');
    await (await limit.consume(1)).settle(100);
    assert.equal((await limit.peek()).allowed, false, 'far too low, it leaves nothing');
  }),
  ...forEach(
    COUNTING,
    'a settlement takes nothing of what others were charged',
    async (trial, make) => {
      const limit = trial.one(make(QUOTA));
      const early = await limit.consume(4);
      trial.clock.advance((await limit.peek()).resetAfterMs);
      await limit.consume(2);
      await early.settle(0);
      await limit.expectRemaining(3, 'after a settlement that came too late');
    },
  ),
  {
    name: 'a bucket gives back no more than the least debt since',
    hold: async (trial) => {
      const limit = trial.one(tokenBucket({ capacity: QUOTA, rate: 1, per: '1s' }));
      const early = await limit.consume(4);
      trial.clock.advance(3_000);
      await limit.consume(2);
      await limit.expectRemaining(2, 'when 3 units have drained');
      await early.settle(0);
      await limit.expectRemaining(3, 'after a settlement of which time had given back 3 units');
    },
  },
  {
    name: 'a leaky bucket gives back a place only from the end of the line',
    hold: async (trial) => {
      const limit = trial.one(leakyBucket({ capacity: QUOTA, rate: 1, per: '1s' }));
      const [first, last] = [await limit.consume(1), await limit.consume(2)];
      await first.settle(0);
      await limit.expectRemaining(2, 'with another behind it');
      await last.settle(0);
      await limit.expectRemaining(4, 'at the end of the line');
    },
  },
  ...forEach(COUNTING, 'several limits are settled at once', async (trial, make) => {
    const names = ['a', 'b', 'c'];
    const limiter = trial.limiter(names.map((name) => ({ name, policy: make(QUOTA) })));
    const keys = { a: 'key', b: 'key', c: 'key' };
    await asked(await limiter.consume(keys, { cost: 3 })).settle({ a: 0, b: 1, c: 4 });
    const { verdicts } = asked(await limiter.peek(keys));
    assert.deepEqual(
      verdicts.map(({ remaining }) => remaining),
      [5, 4, 1],
    );
  }),
];

/** What is charged, given back and forgotten after the decision. */
export const CORRECTIONS: readonly Law[] = [...charges, ...refunds, ...settlements];
