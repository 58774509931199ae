import { type BanOptions, BanRule, type BanState } from '../src/ban.ts';
import type { Answer, Charge, Mode, Store } from '../src/store.ts';
import { MemoryStore } from '../src/stores/memory.ts';
import type { ManualClock } from '../src/testing.ts';
import { type Breakage, but } from './broken-stores.ts';

/** A store that asks the sound one about other charges, bans included, and hands the receipts back. */
function asking(clock: ManualClock, change: (charge: Charge) => Partial<Charge>): Store {
  const sound = new MemoryStore({ clock });
  return but(sound, {
    decide(charges, mode) {
      const others = charges.map((charge): Charge => {
        const { name, key, rule, cost, shadow, ban, receipt } = charge;
        return { name, key, rule, cost, shadow, ban, receipt, ...change(charge) };
      });
      const answer = sound.decide(others, mode);
      for (const [index, charge] of charges.entries()) charge.receipt = others[index]?.receipt;
      return answer;
    },
  });
}

/** A store that bans by another rule where a charge has one. */
const banningBy = (clock: ManualClock, options: Partial<BanOptions>): Store => {
  const other = new BanRule({ after: 3, within: '1m', for: '10s', ...options }, 'ban');
  return asking(clock, ({ ban }) => (ban === undefined ? {} : { ban: other }));
};

/** A store that does something more once it has decided. */
function afterwards(
  clock: ManualClock,
  act: (sound: MemoryStore, charges: readonly Charge[], answer: Answer, mode: Mode) => void,
): Store {
  const sound = new MemoryStore({ clock });
  return but(sound, {
    decide(charges, mode) {
      const answer = sound.decide(charges, mode);
      act(sound, charges, answer, mode);
      return answer;
    },
  });
}

const inMode = (clock: ManualClock, from: Mode, to: Mode): Store => {
  const sound = new MemoryStore({ clock });
  return but(sound, {
    decide: (charges, mode) => sound.decide(charges, mode === from ? to : mode),
  });
};

export const BAN_BREAKAGES: readonly Breakage[] = [
  {
    fault: 'never bans',
    law: 'a key is banned by',
    make: (clock) => asking(clock, () => ({ ban: undefined })),
  },
  {
    fault: 'bans a refusal too late',
    law: 'a key is banned by',
    make: (clock) => banningBy(clock, { after: 4 }),
  },
  {
    fault: 'counts refusals however far apart',
    law: 'refusals too far apart',
    make: (clock) => banningBy(clock, { within: '1h' }),
  },
  {
    fault: 'makes no ban longer',
    law: 'each ban is longer',
    make: (clock) => banningBy(clock, { growth: 1 }),
  },
  {
    fault: 'forgets no ban',
    law: 'a time as long as',
    make: (clock) =>
      asking(clock, ({ ban }) => {
        if (ban === undefined) return {};
        const strike = (state: BanState, now: number): void => {
          if (state[4] > 0) state[0] = Math.max(state[0], now);
          ban.strike(state, now);
        };
        return { ban: Object.assign(Object.create(ban) as BanRule, { strike }) };
      }),
  },
  {
    fault: 'starts a ban anew at a refusal',
    law: 'refusals while banned',
    make: (clock) =>
      afterwards(clock, (sound, charges, { verdicts }, mode) => {
        if (mode !== 'consume') return;
        const banned = charges.filter((_, index) => verdicts[index]?.reason === 'banned');
        sound.ban(banned, 10_000_000);
      }),
  },
  {
    fault: 'counts peeks',
    law: 'refusals while banned',
    make: (clock) => inMode(clock, 'peek', 'consume'),
  },
  {
    fault: 'counts attempts',
    law: 'refusals while banned',
    make: (clock) => inMode(clock, 'attempt', 'consume'),
  },
  {
    fault: 'counts refusals in the shadow',
    law: 'refusals of another limit',
    make: (clock) => asking(clock, () => ({ shadow: false })),
  },
  {
    fault: 'bans for what another limit refuses',
    law: 'refusals of another limit',
    make: (clock) =>
      afterwards(clock, (sound, charges, { admitted }) => {
        if (!admitted) sound.ban(charges, 1_000_000);
      }),
  },
  {
    fault: 'charges other limits while a key is banned',
    law: 'of a request with a banned key',
    make: (clock) =>
      afterwards(clock, (sound, charges, { verdicts }, mode) => {
        if (mode !== 'consume' || verdicts.every(({ reason }) => reason !== 'banned')) return;
        for (const charge of charges) sound.decide([charge], 'charge');
      }),
  },
  {
    fault: 'does not end a ban',
    law: 'the end of a ban',
    make: (clock) => but(new MemoryStore({ clock }), { unban: () => undefined }),
  },
  {
    fault: 'keeps bans at a reset',
    law: 'a reset forgets a ban',
    make: (clock) => {
      const sound = new MemoryStore({ clock });
      return but(sound, {
        reset(keys) {
          sound.reset(keys);
          sound.ban(keys, 60_000_000);
        },
      });
    },
  },
  {
    fault: 'refuses a charge while a key is banned',
    law: 'a charge asks no ban',
    make: (clock) => inMode(clock, 'charge', 'consume'),
  },
  {
    fault: 'refuses for a ban in the shadow',
    law: 'a ban of a limit in the shadow',
    make: (clock) => asking(clock, () => ({ shadow: false })),
  },
  {
    fault: 'has bans wait for a clock that stepped back',
    law: 'a ban outlasts no clock',
    make: (clock) => {
      let latest = 0;
      return new MemoryStore({ clock: () => (latest = Math.max(latest, clock())) });
    },
  },
  {
    fault: 'can ban and not unban',
    law: 'a ban is for any limit',
    make: (clock) => Object.assign(new MemoryStore({ clock }), { unban: undefined }),
  },
];
