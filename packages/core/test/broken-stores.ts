import type { Answer, Charge, Correction, Mode, Store } from '../src/store.ts';
import type { Verdict } from '../src/verdict.ts';
import { MemoryStore } from '../src/stores/memory.ts';
import type { ManualClock } from '../src/testing.ts';

/** What a store gets wrong, the law that must notice, and such a store. */
export interface Breakage {
  readonly fault: string;
  /** What the names of some of the suite's cases begin with. */
  readonly law: string;
  readonly make: (clock: ManualClock) => Store;
}

/** A memory store of which some methods are other ones. */
export function but(sound: MemoryStore, other: Partial<Store>): Store {
  return new Proxy<Store>(sound, {
    get(_, name) {
      const own: unknown = Reflect.get(other, name) ?? Reflect.get(sound, name);
      return typeof own === 'function' ? own.bind(sound) : own;
    },
  });
}

function answering(clock: ManualClock, change: (answer: Answer) => Partial<Answer>): Store {
  const sound = new MemoryStore({ clock });
  return but(sound, {
    decide(charges, mode) {
      const answer = sound.decide(charges, mode);
      const { admitted, at, delay, verdicts } = answer;
      return { admitted, at, delay, verdicts, ...change(answer) };
    },
  });
}

const saying = (clock: ManualClock, change: (verdict: Verdict) => Partial<Verdict>): Store =>
  answering(clock, ({ verdicts }) => ({
    verdicts: verdicts.map((verdict) => ({ ...verdict, ...change(verdict) })),
  }));

/** A copy of a charge with some of it changed. */
function copyOf(charge: Charge, change: Partial<Charge>): Charge {
  const { name, key, rule, cost, shadow, receipt } = charge;
  return { name, key, rule, cost, shadow, receipt, ...change };
}

/** A store that asks the sound one about other charges, and hands the receipts back. */
function asking(clock: ManualClock, change: (charge: Charge) => Partial<Charge>): Store {
  const sound = new MemoryStore({ clock });
  const changed = (charge: Charge): Charge => copyOf(charge, change(charge));
  const named = ({ name, key }: Pick<Charge, 'name' | 'key'>): Pick<Charge, 'name' | 'key'> =>
    changed({ name, key } as Charge);
  return but(sound, {
    decide(charges, mode) {
      const others = charges.map(changed);
      const answer = sound.decide(others, mode);
      const verdicts = answer.verdicts.map((verdict, index): Verdict => {
        const { name, key, shadow } = charges[index] as Charge;
        return { ...verdict, name, key, shadow };
      });
      for (const [index, charge] of charges.entries()) charge.receipt = others[index]?.receipt;
      return { admitted: answer.admitted, at: answer.at, delay: answer.delay, verdicts };
    },
    correct: (corrections) =>
      sound.correct(corrections.map(({ charge, units }) => ({ charge: changed(charge), units }))),
    refund: (charges) => sound.refund(charges.map(changed)),
    renew: (charges) => sound.renew(charges.map(changed)),
    reset: (keys) => sound.reset(keys.map(named)),
  });
}

const without = (clock: ManualClock, other: (sound: MemoryStore) => Partial<Store>): Store => {
  const sound = new MemoryStore({ clock });
  return but(sound, other(sound));
};

const DECISIONS: readonly Breakage[] = [
  {
    fault: 'charges the others where one limit refuses',
    law: 'where one limit refuses',
    make: (clock) =>
      without(clock, (sound) => ({
        decide(charges, mode) {
          const answer = sound.decide(charges, mode);
          if (!answer.admitted && mode === 'consume') {
            for (const charge of charges) sound.decide([charge], mode);
          }
          return answer;
        },
      })),
  },
  {
    fault: 'charges what it refuses',
    law: 'a refusal changes nothing',
    make: (clock) =>
      without(clock, (sound) => ({
        decide(charges, mode) {
          const answer = sound.decide(charges, mode);
          if (!answer.admitted && mode === 'consume') sound.decide(charges, 'charge');
          return answer;
        },
      })),
  },
  {
    fault: 'charges on a peek',
    law: 'a peek says what would be',
    make: (clock) =>
      without(clock, (sound) => ({
        decide: (charges, mode) => sound.decide(charges, mode === 'peek' ? 'consume' : mode),
      })),
  },
  {
    fault: 'refuses for a limit in the shadow',
    law: 'a limit in the shadow reports',
    make: (clock) => asking(clock, () => ({ shadow: false })),
  },
  {
    fault: 'never charges a limit in the shadow',
    law: 'a limit in the shadow is charged',
    make: (clock) => asking(clock, ({ shadow }) => (shadow ? { cost: 0 } : {})),
  },
  {
    fault: 'takes one unit where nothing is asked',
    law: 'a cost of 0',
    make: (clock) => asking(clock, ({ cost }) => ({ cost: Math.max(1, cost) })),
  },
  {
    fault: 'decides no more than fifteen limits',
    law: 'sixteen limits',
    make: (clock) =>
      without(clock, (sound) => ({
        decide: (charges, mode) => sound.decide(charges.slice(0, 15), mode),
      })),
  },
  {
    fault: 'answers in another order',
    law: 'a verdict per charge',
    make: (clock) => answering(clock, ({ verdicts }) => ({ verdicts: verdicts.toReversed() })),
  },
  {
    fault: 'reads the state, then writes it, with time for others in between',
    law: 'a hundred at once',
    make: (clock) =>
      without(clock, (sound) => ({
        async: true,
        async decide(charges, mode) {
          const answer = sound.decide(charges, 'peek');
          await Promise.resolve();
          return answer.admitted
            ? sound.decide(charges, mode === 'consume' ? 'charge' : mode)
            : answer;
        },
      })),
  },
];

const TIMES: readonly Breakage[] = [
  {
    fault: 'rounds waits down to milliseconds',
    law: 'who waits as long as told',
    make: (clock) =>
      saying(clock, ({ retryAfterMs }) => ({ retryAfterMs: Math.floor(retryAfterMs) })),
  },
  {
    fault: 'adds a microsecond to every wait',
    law: 'who waits as long as told',
    make: (clock) =>
      saying(clock, ({ retryAfterMs }) => ({
        retryAfterMs: retryAfterMs === 0 ? 0 : (Math.round(retryAfterMs * 1_000) + 1) / 1_000,
      })),
  },
  {
    fault: 'rounds the time until a key is whole',
    law: 'a key is whole',
    make: (clock) =>
      saying(clock, ({ resetAfterMs }) => ({ resetAfterMs: Math.round(resetAfterMs) })),
  },
  {
    fault: 'says that the next unit comes when all are there',
    law: 'one more unit',
    make: (clock) => saying(clock, ({ resetAfterMs }) => ({ nextAfterMs: resetAfterMs })),
  },
  {
    fault: 'holds nobody in a leaky bucket',
    law: 'a leaky bucket holds',
    make: (clock) => answering(clock, () => ({ delay: 0 })),
  },
  {
    fault: 'never lets its clock step back',
    law: 'a clock that steps back',
    make: (clock) => {
      let latest = 0;
      return new MemoryStore({ clock: () => (latest = Math.max(latest, clock())) });
    },
  },
  {
    fault: 'forgets everything when the clock steps back',
    law: 'a clock that steps back',
    make: (clock) => {
      let latest = 0;
      let sound = new MemoryStore({ clock });
      return without(clock, () => ({
        decide(charges, mode) {
          if (clock() < latest) sound = new MemoryStore({ clock });
          latest = clock();
          return sound.decide(charges, mode);
        },
      }));
    },
  },
  {
    fault: 'goes by a clock of its own',
    law: 'a decision says when',
    make: () => new MemoryStore(),
  },
];

const down = ({ units }: Correction): boolean => units < 0;

const CORRECTIONS: readonly Breakage[] = [
  {
    fault: 'never charges into debt',
    law: 'a charge goes into debt',
    make: (clock) =>
      without(clock, (sound) => ({
        decide: (charges, mode) => sound.decide(charges, mode === 'charge' ? 'consume' : mode),
      })),
  },
  {
    fault: 'forgets refunds',
    law: 'a refund takes off',
    make: (clock) => without(clock, () => ({ refund: () => undefined })),
  },
  {
    fault: 'refunds all that is owed',
    law: 'a refund takes off',
    make: (clock) => without(clock, (sound) => ({ refund: (charges) => sound.reset(charges) })),
  },
  {
    fault: 'gives nothing back',
    law: 'a settlement gives back',
    make: (clock) =>
      without(clock, (sound) => ({
        correct: (corrections) => sound.correct(corrections.filter((each) => !down(each))),
      })),
  },
  {
    fault: 'charges nothing on top',
    law: 'a settlement charges',
    make: (clock) =>
      without(clock, (sound) => ({
        correct: (corrections) => sound.correct(corrections.filter(down)),
      })),
  },
  {
    fault: 'settles the first of several limits only',
    law: 'several limits are settled',
    make: (clock) =>
      without(clock, (sound) => ({
        correct: (corrections) => sound.correct(corrections.slice(0, 1)),
      })),
  },
  {
    fault: 'gives back without a look at the receipt',
    law: 'a settlement takes nothing of what others',
    make: (clock) =>
      without(clock, (sound) => ({
        correct: (corrections) =>
          sound.refund(corrections.map(({ charge, units }) => copyOf(charge, { cost: -units }))),
      })),
  },
  {
    fault: 'forgets all keys of a limit at a reset',
    law: 'a reset forgets one key',
    make: (clock) =>
      without(clock, (sound) => ({
        reset(keys) {
          for (const key of ['one', 'other']) sound.reset(keys.map(({ name }) => ({ name, key })));
        },
      })),
  },
  {
    fault: 'resets nothing',
    law: 'a reset forgets one key',
    make: (clock) => without(clock, () => ({ reset: () => undefined })),
  },
];

const SLOTS_AND_KEYS: readonly Breakage[] = [
  {
    fault: 'frees the oldest slot, whoever holds it',
    law: 'a store frees a slot once',
    make: (clock) =>
      without(clock, (sound) => {
        const held: Charge[] = [];
        return {
          decide(charges: readonly Charge[], mode: Mode) {
            const answer = sound.decide(charges, mode);
            held.push(...charges.filter(({ receipt }) => receipt !== undefined));
            return answer;
          },
          correct(corrections: readonly Correction[]) {
            sound.correct(
              corrections.map(({ charge, units }) => ({ charge: held.shift() ?? charge, units })),
            );
          },
        };
      }),
  },
  {
    fault: 'says that every slot is held still',
    law: 'a renewal keeps',
    make: (clock) =>
      without(clock, (sound) => ({
        renew(charges) {
          sound.renew(charges);
          return charges.map(() => true);
        },
      })),
  },
  {
    fault: 'renews nothing',
    law: 'a renewal keeps',
    make: (clock) => without(clock, () => ({ renew: (charges) => charges.map(() => true) })),
  },
  {
    fault: 'takes a slot that had expired anew at a renewal',
    law: 'a renewal keeps',
    make: (clock) =>
      without(clock, (sound) => ({
        renew(charges) {
          const held = sound.renew(charges);
          for (const [index, charge] of charges.entries()) {
            if (held[index] === false) sound.decide([charge], 'consume');
          }
          return held;
        },
      })),
  },
  {
    fault: 'forgets what is owed when the policy changes',
    law: 'units owed stay owed',
    make: (clock) =>
      asking(clock, ({ key, rule }) =>
        rule === undefined ? {} : { key: `${key} ${JSON.stringify(rule.policy)}` },
      ),
  },
  {
    fault: 'keeps states in an object with a prototype',
    law: 'every key has a budget of its own',
    make: (clock) => asking(clock, ({ key }) => (key in {} ? { key: 'inherited' } : {})),
  },
  {
    fault: 'writes keys as UTF-8',
    law: 'every key has a budget of its own',
    make: (clock) => asking(clock, ({ key }) => ({ key: key.toWellFormed() })),
  },
  {
    fault: 'trims keys',
    law: 'every key has a budget of its own',
    make: (clock) => asking(clock, ({ key }) => ({ key: key.trim() || key })),
  },
  {
    fault: 'cuts long keys',
    law: 'every key has a budget of its own',
    make: (clock) => asking(clock, ({ key }) => ({ key: key.slice(0, 255) })),
  },
  {
    fault: 'writes names and keys one behind the other',
    law: 'limits of other names',
    make: (clock) => asking(clock, ({ name, key }) => ({ name: 'all', key: `${name}${key}` })),
  },
];

export const BREAKAGES: readonly Breakage[] = [
  ...DECISIONS,
  ...TIMES,
  ...CORRECTIONS,
  ...SLOTS_AND_KEYS,
];
