import { strict as assert } from 'node:assert';
import type { Rule } from '../algorithm.ts';
import { ruleOf } from '../algorithms/index.ts';
import type { Charge } from '../store.ts';
import { concurrency } from '../policy.ts';
import { asked, chargeOf, type Law, MICROSECOND, only, type Trial } from './trial.ts';

const TIMEOUT_MS = 60_000;
const slots = (limit: number): Rule => ruleOf(concurrency({ limit, slotTimeout: TIMEOUT_MS }));

/** Takes a slot without a limiter, which would renew it. */
async function take({ store }: Trial, rule: Rule): Promise<Charge> {
  const charge = chargeOf(rule, 1);
  const { admitted } = await store.decide([charge], 'consume');
  assert.ok(admitted, 'there is a slot');
  assert.notEqual(charge.receipt, undefined, 'a charge has a receipt');
  return charge;
}

async function free({ store }: Trial, rule: Rule): Promise<number> {
  const { verdicts } = await store.decide([chargeOf(rule, 1)], 'peek');
  return verdicts[0]?.remaining ?? NaN;
}

const release = async ({ store }: Trial, charge: Charge): Promise<void> =>
  store.correct([{ charge, units: -1 }]);

/** Places of a concurrency limit. */
export const SLOTS: readonly Law[] = [
  {
    name: 'a release frees one slot, once',
    hold: async (trial) => {
      const limit = trial.one(concurrency({ limit: 2, slotTimeout: '1h' }));
      const [first] = [await limit.consume(), await limit.consume()];
      assert.equal((await limit.consume()).allowed, false, 'all slots are taken');
      await first.release();
      await limit.expectRemaining(1, 'after a release');
      await first.release();
      await limit.expectRemaining(1, 'after a second release of the same');
    },
  },
  {
    name: 'a store frees a slot once, however often it is told',
    hold: async (trial) => {
      const rule = slots(3);
      const [first] = [await take(trial, rule), await take(trial, rule), await take(trial, rule)];
      for (let times = 0; times < 3; times++) {
        await release(trial, first);
        assert.equal(await free(trial, rule), 1);
      }
    },
  },
  {
    name: 'a slot that is not renewed is free after its timeout',
    hold: async (trial) => {
      const rule = slots(1);
      await take(trial, rule);
      trial.clock.advance(TIMEOUT_MS - MICROSECOND);
      assert.equal(await free(trial, rule), 0, 'a microsecond early it is taken');
      trial.clock.advance(MICROSECOND);
      assert.equal(await free(trial, rule), 1, 'after the timeout it is free');
    },
  },
  {
    name: 'a renewal keeps a slot for another timeout',
    hold: async (trial) => {
      const rule = slots(2);
      const [kept, dropped] = [await take(trial, rule), await take(trial, rule)];
      for (let times = 0; times < 3; times++) {
        trial.clock.advance(TIMEOUT_MS - 1);
        assert.deepEqual(await trial.store.renew([kept]), [true]);
      }
      assert.equal(await free(trial, rule), 1, 'only the slot that was renewed is taken');
      assert.deepEqual(await trial.store.renew([dropped, kept]), [false, true]);
      assert.equal(await free(trial, rule), 1, 'what is not held is not taken anew');
    },
  },
  {
    name: 'a slot that expired frees nobody else’s',
    hold: async (trial) => {
      const rule = slots(1);
      const crashed = await take(trial, rule);
      trial.clock.advance(TIMEOUT_MS);
      await take(trial, rule);
      await release(trial, crashed);
      assert.equal(await free(trial, rule), 0, 'the slot is the other’s now');
      assert.deepEqual(await trial.store.renew([crashed]), [false]);
    },
  },
  {
    name: 'slots reserved for higher priorities are kept from lower ones',
    hold: async (trial) => {
      const policy = concurrency({ limit: 4, slotTimeout: '1h', reserved: { critical: 0.5 } });
      const limiter = trial.limiter([{ name: 'limit', policy }]);
      const ask = async (priority: string): Promise<string> =>
        only(asked(await limiter.consume({ limit: 'key' }, { priority }))).reason;
      const said: string[] = [];
      for (const priority of ['normal', 'normal', 'normal', 'critical', 'critical', 'critical']) {
        said.push(await ask(priority));
      }
      assert.deepEqual(said, ['ok', 'ok', 'overloaded', 'ok', 'ok', 'overloaded']);
    },
  },
];
