import { everyone, fixedWindow } from '@tollgate/core';
import { describe, expect, it, test } from 'vitest';
import { header } from './app.ts';
import { ask, inTurn } from './clients.ts';
import { Clock, START } from './clock.ts';
import { Log } from './log.ts';
import { FRAMEWORKS } from './servers.ts';

const one = fixedWindow({ limit: 1, window: '60s' });

describe.each(FRAMEWORKS)('$name', ({ serve }) => {
  test.each<['clear' | 'hash' | false, RegExp | undefined]>([
    ['clear', /^127\.0\.0\.1$/],
    ['hash', /^[\w-]{22}$/],
    [false, undefined],
  ])('logs a refusal with the limit and its key as %s', async (logKeys, key) => {
    const log = new Log();
    const { url, gate } = await serve({
      gates: [{ store: new Clock().store, policy: one, logger: log, logKeys }],
    });
    expect(await inTurn(url, 2)).toEqual([200, 429]);
    expect(log.lines).toHaveLength(1);
    const [line] = log.lines;
    expect(line).toMatchObject({
      level: 'warn',
      details: { limit: 'default', reason: 'limited', cost: 1, quota: 1, retryAfterMs: 60_000 },
    });
    if (key === undefined) expect(line?.details).not.toHaveProperty('key');
    else expect(line?.details['key']).toMatch(key);
    const [counted] = gate.rejections()['default']?.keys ?? [];
    expect(counted).toMatchObject({ count: 1, firstMs: START, lastMs: START });
    if (key !== undefined) expect(counted?.key).toMatch(key);
  });

  it('counts a flood and does not log it', async () => {
    const log = new Log();
    const clock = new Clock();
    const by = header('x-user');
    const limits = [
      { name: 'user', policy: one, by },
      { name: 'all', policy: fixedWindow({ limit: 100, window: '60s' }), by: everyone() },
    ];
    const { url, gate } = await serve({ gates: [{ store: clock.store, limits, logger: log }] });
    await inTurn(url, 40, { headers: { 'x-user': 'ada' } });
    expect(log.lines).toHaveLength(1);
    expect(gate.rejections()['user']).toMatchObject({
      count: 39,
      keys: [{ key: 'ada', count: 39, error: 0 }],
    });
    expect(gate.rejections()).not.toHaveProperty('all');

    clock.at(11_000);
    await ask(url, { headers: { 'x-user': 'ada' } });
    expect(log.lines[1]?.details).toMatchObject({ key: 'ada', refused: 39 });
  });

  it('logs a cost that can never be admitted, once, as a mistake', async () => {
    const log = new Log();
    const limits = [
      { name: 'units', policy: fixedWindow({ limit: 10, window: '60s' }), cost: () => 11 },
    ];
    const { url } = await serve({ gates: [{ store: new Clock().store, limits, logger: log }] });
    expect(await inTurn(url, 3)).toEqual([429, 429, 429]);
    const mistakes = log.lines.filter(({ level }) => level === 'error');
    expect(mistakes).toHaveLength(1);
    expect(mistakes[0]?.details).toEqual({ limit: 'units', cost: 11, quota: 10 });
  });

  it('does not take a plan without access for a mistake', async () => {
    const log = new Log();
    const policy = fixedWindow({ limit: 0, window: '60s' });
    const { url } = await serve({ gates: [{ store: new Clock().store, policy, logger: log }] });
    expect(await inTurn(url, 2)).toEqual([429, 429]);
    expect(log.lines.filter(({ level }) => level === 'error')).toEqual([]);
  });
});
