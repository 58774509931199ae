import { strict as assert } from 'node:assert';
import type { BanOptions } from '../ban.ts';
import type { Limiter } from '../limiter.ts';
import type { LimitOptions } from '../limits.ts';
import { fixedWindow, tokenBucket } from '../policy.ts';
import { asked, type Law, MICROSECOND, only, standing, type Trial } from './trial.ts';

const KEYS = { limit: 'key' } as const;
/** The third refusal within a minute bans for ten seconds. */
const BAN = { after: 3, within: '1m', for: '10s' } as const satisfies BanOptions;
/** So quick that a key is whole again by the next microsecond, and slow enough to be refused at one instant. */
const QUICK = tokenBucket({ capacity: 1, rate: 1, per: 0.001 });
const NOTHING = fixedWindow({ limit: 0, window: '1h' });

const quick = (more: Partial<LimitOptions> = {}): LimitOptions => ({
  name: 'limit',
  policy: QUICK,
  ban: BAN,
  ...more,
});

/** A law of stores that know bans. Those that have neither `ban` nor `unban` need not keep it. */
function ban(name: string, hold: (trial: Trial) => Promise<void>): Law {
  return {
    name,
    hold: async (trial) => {
      const [imposes, lifts] = [typeof trial.store.ban, typeof trial.store.unban];
      assert.equal(imposes, lifts, 'a store has both ban() and unban(), or neither');
      if (imposes === 'function') await hold(trial);
    },
  };
}

const reasonOf = async (limiter: Limiter, keys = KEYS): Promise<string> =>
  asked(await limiter.consume(keys)).reason;

/** Has a key refused until it is banned. Returns how often it was refused. */
async function provoke({ clock }: Trial, limiter: Limiter): Promise<number> {
  clock.advance(MICROSECOND);
  assert.equal(await reasonOf(limiter), 'ok', 'whoever is not banned is admitted');
  for (let refusals = 1; refusals <= 100; refusals++) {
    if ((await reasonOf(limiter)) === 'banned') return refusals;
  }
  return assert.fail('a key that is refused again and again is banned');
}

/** How long a key is banned from now on, in milliseconds; at the end of it the time has passed. */
async function sitOut({ clock }: Trial, limiter: Limiter): Promise<number> {
  const { reason, retryAfterMs } = asked(await limiter.peek(KEYS));
  assert.equal(reason, 'banned');
  clock.advance(retryAfterMs - MICROSECOND);
  assert.equal(await reasonOf(limiter), 'banned', 'a microsecond early it is banned still');
  clock.advance(MICROSECOND);
  assert.equal(asked(await limiter.peek(KEYS)).reason, 'ok', 'after the wait it is not');
  return retryAfterMs;
}

const counting: readonly Law[] = [
  ban(
    'a key is banned by the refusal that fills the count, and says for how long',
    async (trial) => {
      const limiter = trial.limiter([quick()]);
      assert.equal(await provoke(trial, limiter), 3);
      const verdict = only(asked(await limiter.consume(KEYS)));
      const { allowed, reason, remaining, nextAfterMs, resetAfterMs, retryAfterMs } = verdict;
      assert.deepEqual(
        { allowed, reason, remaining, nextAfterMs, resetAfterMs, retryAfterMs },
        {
          allowed: false,
          reason: 'banned',
          remaining: 0,
          nextAfterMs: 10_000,
          resetAfterMs: 10_000,
          retryAfterMs: 10_000,
        },
      );
      assert.equal(await sitOut(trial, limiter), 10_000);
    },
  ),
  ban('refusals too far apart ban nobody', async (trial) => {
    const limiter = trial.limiter([quick({ policy: NOTHING })]);
    for (let times = 0; times < 8; times++) {
      assert.equal(await reasonOf(limiter), 'limited');
      trial.clock.advance(30_000);
    }
  }),
  ban('each ban is longer, up to the longest', async (trial) => {
    const limiter = trial.limiter([quick({ ban: { ...BAN, growth: 3, max: '2m' } })]);
    const lengths: number[] = [];
    for (let times = 0; times < 5; times++) {
      await provoke(trial, limiter);
      lengths.push(await sitOut(trial, limiter));
    }
    assert.deepEqual(lengths, [10_000, 30_000, 90_000, 120_000, 120_000]);
  }),
  ban('a time as long as the last ban without another forgets one of them', async (trial) => {
    const limiter = trial.limiter([quick()]);
    for (let times = 0; times < 3; times++) {
      await provoke(trial, limiter);
      await sitOut(trial, limiter);
    }
    // The third lasted 40 s.
    trial.clock.advance(2 * 40_000);
    await provoke(trial, limiter);
    assert.equal(await sitOut(trial, limiter), 20_000, 'two of three are forgotten');
    trial.clock.advance(365 * 86_400_000);
    await provoke(trial, limiter);
    assert.equal(await sitOut(trial, limiter), 10_000, 'all are forgotten in the end');
  }),
  ban('refusals while banned, peeks and attempts do not count', async (trial) => {
    const limiter = trial.limiter([quick()]);
    await provoke(trial, limiter);
    for (let times = 0; times < 9; times++) assert.equal(await reasonOf(limiter), 'banned');
    await sitOut(trial, limiter);
    assert.equal(await reasonOf(limiter), 'ok');
    for (let times = 0; times < 9; times++) {
      assert.equal(asked(await limiter.peek(KEYS)).reason, 'limited');
      const charges = limiter.limits.charges(KEYS, undefined);
      assert.equal((await limiter.decide(charges, 'attempt', false)).reason, 'limited');
    }
    const said = [await reasonOf(limiter), await reasonOf(limiter), await reasonOf(limiter)];
    assert.deepEqual(said, ['limited', 'limited', 'banned']);
    assert.equal(await sitOut(trial, limiter), 20_000, 'the second ban, and no later one');
  }),
  ban('refusals of another limit, another key or in the shadow do not count', async (trial) => {
    const limiter = trial.limiter([
      quick({ policy: fixedWindow({ limit: 1_000, window: '1h' }) }),
      { name: 'other', policy: NOTHING },
      { name: 'shadow', policy: NOTHING, mode: 'shadow', ban: BAN },
    ]);
    for (let times = 0; times < 9; times++) {
      asked(await limiter.consume({ limit: 'key', other: 'key' }));
      asked(await limiter.consume({ limit: `key ${times}`, other: 'key' }));
      asked(await limiter.consume({ shadow: 'key' }));
    }
    const { verdicts } = asked(await limiter.peek({ limit: 'key', shadow: 'key' }));
    assert.deepEqual(
      verdicts.map(({ reason }) => reason),
      ['ok', 'limited'],
    );
  }),
  ban('a crowd that is refused at once is banned once', async (trial) => {
    const limiter = trial.limiter([quick()]);
    trial.clock.advance(MICROSECOND);
    const decisions = await Promise.all(
      Array.from({ length: 50 }, async () => limiter.consume(KEYS)),
    );
    const reasons = decisions.map((decision) => asked(decision).reason).sort();
    const expected = ['limited', 'limited', 'ok', ...Array<string>(47).fill('banned')].sort();
    assert.deepEqual(reasons, expected);
    assert.equal(await sitOut(trial, limiter), 10_000, 'as long as a first ban');
  }),
];

const imposed: readonly Law[] = [
  ban('of a request with a banned key nothing is charged, whatever it costs', async (trial) => {
    const limiter = trial.limiter([
      quick({ policy: fixedWindow({ limit: 5, window: '1h' }) }),
      { name: 'all', policy: fixedWindow({ limit: 5, window: '1h' }) },
    ]);
    await limiter.ban(KEYS, 1_000);
    const both = { limit: 'key', all: 'key' };
    for (const cost of [0, 1, 5]) {
      const decision = asked(await limiter.consume(both, { cost }));
      assert.deepEqual([decision.allowed, decision.reason], [false, 'banned'], `a cost of ${cost}`);
    }
    trial.clock.advance(1_000);
    const whole = standing(await limiter.peek(both));
    assert.deepEqual(whole, standing(await limiter.peek({ limit: 'new', all: 'new' })));
  }),
  ban('a ban is for any limit, of one key, for as long as it is to last', async (trial) => {
    const limiter = trial.limiter([{ name: 'limit', policy: QUICK }]);
    await limiter.ban(KEYS, 5_000);
    assert.equal(asked(await limiter.consume({ limit: 'another' })).reason, 'ok');
    assert.equal(await sitOut(trial, limiter), 5_000);
    await limiter.ban(KEYS, 60_000);
    await limiter.ban(KEYS, 2_000);
    assert.equal(await sitOut(trial, limiter), 2_000, 'the last word counts');
  }),
  ban('the end of a ban is its end, and forgets what was counted', async (trial) => {
    const limiter = trial.limiter([quick()]);
    await provoke(trial, limiter);
    await limiter.unban(KEYS);
    assert.equal(asked(await limiter.peek(KEYS)).reason, 'limited', 'nobody is banned');
    assert.equal(await reasonOf(limiter), 'limited');
    assert.equal(await reasonOf(limiter), 'limited');
    await limiter.unban(KEYS);
    await provoke(trial, limiter);
    assert.equal(await sitOut(trial, limiter), 10_000, 'as long as a first ban');
  }),
  ban('a reset forgets a ban', async (trial) => {
    const limiter = trial.limiter([quick()]);
    await limiter.ban(KEYS, 60_000);
    await limiter.reset(KEYS);
    assert.equal(await reasonOf(limiter), 'ok');
  }),
  ban('a charge asks no ban', async (trial) => {
    const policy = fixedWindow({ limit: 5, window: '1h' });
    const limiter = trial.limiter([{ name: 'limit', policy }]);
    await limiter.ban(KEYS, 1_000);
    assert.equal(asked(await limiter.charge(KEYS, 2)).allowed, true);
    trial.clock.advance(1_000);
    assert.equal(asked(await limiter.peek(KEYS)).remaining, 3);
  }),
  ban('a ban of a limit in the shadow refuses nobody, and is reported', async (trial) => {
    const policy = fixedWindow({ limit: 5, window: '1h' });
    const limiter = trial.limiter([{ name: 'limit', policy, mode: 'shadow' }]);
    await limiter.ban(KEYS, 1_000);
    const decision = asked(await limiter.consume(KEYS));
    assert.deepEqual([decision.allowed, only(decision).reason], [true, 'banned']);
  }),
  ban('a ban outlasts no clock that steps back', async (trial) => {
    const limiter = trial.limiter([quick()]);
    await limiter.ban(KEYS, 4_000);
    trial.clock.advance(-3_600_000);
    const { retryAfterMs } = asked(await limiter.peek(KEYS));
    assert.equal(retryAfterMs, 4_000, 'no longer than it was to last');
    assert.equal(await reasonOf(limiter), 'banned');
    assert.equal(await sitOut(trial, limiter), 4_000);
  }),
];

/** Keys that are refused whatever they ask for. */
export const BANS: readonly Law[] = [...counting, ...imposed];
