import { expect, test } from 'vitest';
import { counterOf } from '../src/http/open-reservations.ts';
import { createLimiter } from '../src/limiter.ts';
import { fixedWindow } from '../src/policy.ts';
import { KeyNames } from '../src/redis/keys.ts';

const tagOf = (name: string): string | undefined => /\{(.*?)\}/.exec(name)?.[1];

test('what counts the reservations of a key is in the slot of the key, under a name of its own', () => {
  const names = new KeyNames('tollgate:', undefined, true);
  const limiter = createLimiter({
    limits: [{ name: 'login', policy: fixedWindow({ limit: 5, window: '1h' }) }],
  });
  const tags = new Set<string | undefined>();
  for (const login of ['ann', 'bob', 'a.b', '203.0.113.7', 'x'.repeat(300)]) {
    const [charge] = limiter.limits.charges({ login }, undefined);
    if (charge === undefined) throw new Error('the limit applies');
    const [own = '', counter = ''] = names.of([charge, counterOf(charge)]);
    expect(tagOf(counter)).toBe(tagOf(own));
    expect(counter).not.toBe(own);
    tags.add(tagOf(own));
  }
  expect(tags.size).toBe(5);
});
