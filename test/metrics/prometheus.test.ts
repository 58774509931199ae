import { channel } from 'node:diagnostics_channel';
import { createLimiter, fixedWindow, type LeaseEvent, memoryStore } from '@tollgate/core';
import { collectPrometheus } from '@tollgate/core/prometheus';
import { redisStore } from '@tollgate/core/redis';
import { Redis } from 'ioredis';
import {
  Counter,
  type OpenMetricsContentType,
  Registry,
  register as defaultRegister,
} from 'prom-client';
import { describe, expect, it, onTestFinished } from 'vitest';
import { silent } from '../http/log.ts';
import { parsed, scrape } from './scrape.ts';
import { type Expected, Service } from './service.ts';

const CHANNELS = ['tollgate:decision', 'tollgate:store-error', 'tollgate:store-call'];
const limits = [{ name: 'ip', policy: fixedWindow({ limit: 2, window: '1d' }) }];

function isHeard(): boolean[] {
  return CHANNELS.map((name) => channel(name).hasSubscribers);
}

/** A name as the scrape has it. */
function full(name: string, prefix: string): string {
  const [metric = '', ...labels] = name.split(' ');
  const suffix = metric === 'store_state' ? '' : '_total';
  return [`${prefix}${metric}${suffix}`, ...labels].join(' ');
}

function inFull(expected: Expected, prefix = 'tollgate_'): Expected {
  return Object.fromEntries(
    Object.entries(expected).map(([name, value]) => [full(name, prefix), value]),
  );
}

/** The values of all metrics but the histogram. */
function counted(values: Expected): Expected {
  const entries = Object.entries(values);
  return Object.fromEntries(entries.filter(([name]) => !name.includes('_duration_')));
}

async function valuesOf(register: Registry): Promise<Expected> {
  return parsed(await register.metrics()).values;
}

describe('a scrape', () => {
  it('says over HTTP what a service was asked, with Redis and without', async () => {
    const register = new Registry();
    onTestFinished(collectPrometheus({ register }));
    const service = await Service.open((app) =>
      app.get('/metrics', { config: { rateLimit: false } }, async (_request, reply) => {
        reply.type(register.contentType);
        return register.metrics();
      }),
    );
    const metrics = `${service.url}/metrics`;
    const healthy = await service.useInHealth();
    const first = await scrape(metrics);
    expect(counted(first.values)).toEqual({ ...inFull(healthy), tollgate_memory_keys: 0 });
    expect(first.types).toEqual({
      tollgate_decisions_total: 'counter',
      tollgate_decisions_degraded_total: 'counter',
      tollgate_verdicts_total: 'counter',
      tollgate_store_errors_total: 'counter',
      tollgate_leases_total: 'counter',
      tollgate_lease_units_total: 'counter',
      tollgate_store_state: 'gauge',
      tollgate_memory_keys: 'gauge',
      tollgate_store_call_duration_seconds: 'histogram',
    });
    // Being scraped is no decision, and counts nothing twice.
    expect((await scrape(metrics)).values).toEqual(first.values);

    const down = await service.useInOutage(healthy);
    const second = await scrape(metrics);
    expect(counted(second.values)).toEqual({ ...inFull(down), tollgate_memory_keys: 0 });

    for (const outcome of ['ok', 'error']) {
      const calls = service.calls.filter(
        ({ error }) => (error === undefined) === (outcome === 'ok'),
      );
      expect(calls.length).toBeGreaterThanOrEqual(3);
      const seconds = calls.map(({ durationMs }) => durationMs / 1_000);
      const of = (part: string, le = ''): number | undefined =>
        second.values[
          `tollgate_store_call_duration_seconds_${part}${le} outcome=${outcome} store=shop:`
        ];
      expect(of('count')).toBe(calls.length);
      expect(of('sum')).toBeCloseTo(
        seconds.reduce((sum, each) => sum + each, 0),
        9,
      );
      for (const le of [0.000_25, 0.01, 1]) {
        expect(of('bucket', ` le=${le}`)).toBe(seconds.filter((each) => each <= le).length);
      }
      expect(of('bucket', ' le=+Inf')).toBe(calls.length);
    }
  });

  it('has what OpenMetrics asks for', async () => {
    const register = new Registry<OpenMetricsContentType>();
    register.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
    const stop = collectPrometheus({ register });
    onTestFinished(stop);
    createLimiter({ limits }).consume({ ip: 'a' });
    for (const _ of [1, 2]) {
      const text = await register.metrics();
      expect(text).toContain('# TYPE tollgate_verdicts counter\n');
      expect(text).toContain(
        'tollgate_verdicts_total{limit="ip",outcome="admitted",mode="enforce"} 1\n',
      );
    }
    stop();
    expect(await register.metrics()).toBe('\n# EOF\n');
  });

  it('counts keys in memory, of the limiters that are open', async () => {
    const register = new Registry();
    onTestFinished(collectPrometheus({ register }));
    const [store, other] = [memoryStore(), memoryStore()];
    const limiter = createLimiter({ store, limits });
    const same = createLimiter({ store, limits });
    const gone = createLimiter({ store: other, limits });
    for (const key of ['a', 'b', 'c']) limiter.consume({ ip: key });
    for (const key of ['c', 'd']) same.consume({ ip: key });
    gone.consume({ ip: 'e' });
    expect((await valuesOf(register))['tollgate_memory_keys']).toBe(5);
    gone.close();
    expect((await valuesOf(register))['tollgate_memory_keys']).toBe(store.size);
  });

  it('counts a fault once that several limiters on a store meet', async () => {
    const register = new Registry();
    onTestFinished(collectPrometheus({ register }));
    // Nobody listens there.
    const client = new Redis(1, '127.0.0.1', { lazyConnect: true });
    const store = redisStore(client, { breaker: { failures: 1, probeMs: 600_000 } });
    const limiters = [1, 2, 3].map(() => createLimiter({ store, limits, logger: silent }));
    for (const limiter of limiters) {
      for (const key of ['a', 'b']) await limiter.consume({ ip: key });
    }
    expect(await valuesOf(register)).toMatchObject({
      'tollgate_decisions_degraded_total outcome=admitted': 4,
      'tollgate_decisions_degraded_total outcome=limited': 2,
      'tollgate_store_errors_total store=tollgate:': 1,
      'tollgate_store_state state=down store=tollgate:': 1,
    });
    for (const limiter of limiters) await limiter.close();
    const names = Object.keys(await valuesOf(register));
    expect(names.filter((name) => name.startsWith('tollgate_store_state'))).toEqual([]);
  });

  it('counts leases', async () => {
    const register = new Registry();
    onTestFinished(collectPrometheus({ register }));
    const told: LeaseEvent[] = [
      { name: 'api', event: 'granted', units: 10 },
      { name: 'api', event: 'granted', units: 5 },
      { name: 'api', event: 'returned', units: 3 },
    ];
    for (const event of told) channel('tollgate:lease').publish(event);
    expect(await valuesOf(register)).toMatchObject({
      'tollgate_leases_total event=granted limit=api': 2,
      'tollgate_lease_units_total event=granted limit=api': 15,
      'tollgate_leases_total event=returned limit=api': 1,
      'tollgate_lease_units_total event=returned limit=api': 3,
    });
  });

  it('stays small, whatever limits are called', async () => {
    const register = new Registry();
    onTestFinished(collectPrometheus({ register }));
    const names = Array.from({ length: 520 }, (_, index) => `limit${index}`);
    const [{ policy } = { policy: undefined as never }] = limits;
    const limiter = createLimiter({ limits: names.map((name) => ({ name, policy })) });
    for (const name of names) limiter.consume({ [name]: 'a' });
    const values = Object.entries(await valuesOf(register));
    const verdicts = values.filter(([name]) => name.startsWith('tollgate_verdicts_total'));
    expect(verdicts).toHaveLength(501);
    expect(verdicts.at(-1)).toEqual([
      'tollgate_verdicts_total limit=(other) mode=enforce outcome=admitted',
      20,
    ]);
  });

  it('names no key', async () => {
    const register = new Registry();
    onTestFinished(collectPrometheus({ register }));
    const limiter = createLimiter({ limits });
    for (let i = 0; i < 3; i++) limiter.consume({ ip: 'somebody' });
    expect(await register.metrics()).not.toContain('somebody');
  });
});

describe('a collector', () => {
  it('counts no more once it is stopped, and may be made anew', async () => {
    const register = new Registry();
    const limiter = createLimiter({ limits });
    const stop = collectPrometheus({ register });
    expect(isHeard()).toEqual([true, true, true]);
    limiter.consume({ ip: 'a' });
    stop();
    expect(isHeard()).toEqual([false, false, false]);
    expect(await register.metrics()).toBe('\n');
    const again = collectPrometheus({ register });
    onTestFinished(again);
    // Of a second stop nobody else takes harm.
    stop();
    limiter.consume({ ip: 'a' });
    expect(
      (await valuesOf(register))['tollgate_decisions_total outcome=admitted source=store'],
    ).toBe(1);
  });

  it('is beside others, each with a register and a prefix of its own', async () => {
    const [one, two] = [new Registry(), new Registry()];
    const stopOne = collectPrometheus({ register: one });
    onTestFinished(collectPrometheus({ register: two, prefix: 'shop:limits_' }));
    const limiter = createLimiter({ limits });
    limiter.consume({ ip: 'a' });
    const expected = { 'decisions outcome=admitted source=store': 1 };
    expect(await valuesOf(one)).toMatchObject(inFull(expected));
    expect(await valuesOf(two)).toMatchObject(inFull(expected, 'shop:limits_'));
    stopOne();
    limiter.consume({ ip: 'a' });
    expect(await valuesOf(one)).toEqual({});
    expect(await valuesOf(two)).toMatchObject(
      inFull({ 'decisions outcome=admitted source=store': 2 }, 'shop:limits_'),
    );
  });

  it('goes to the default register, where it is not told another', async () => {
    const stop = collectPrometheus();
    expect(defaultRegister.getSingleMetric('tollgate_decisions_total')).toBeDefined();
    stop();
    expect(defaultRegister.getSingleMetric('tollgate_decisions_total')).toBeUndefined();
  });

  it('leaves nothing behind where a name is taken, and takes nothing away', async () => {
    const register = new Registry();
    const name = 'tollgate_verdicts_total';
    new Counter({ name, help: 'mine', registers: [register] });
    expect(() => collectPrometheus({ register })).toThrow(`${name} has already been registered`);
    expect(isHeard()).toEqual([false, false, false]);
    expect(register.getMetricsAsArray().map((metric) => metric.name)).toEqual([name]);
  });

  it.each<[object, string]>([
    [{ registry: new Registry() }, 'registry'],
    [{ register: {} }, 'register'],
    [{ prefix: '9lives_' }, 'prefix'],
    [{ prefix: 'my-service' }, 'prefix'],
  ])('takes no wrong option: %o', (options, path) => {
    expect(() => collectPrometheus(options)).toThrow(expect.objectContaining({ path }));
    expect(isHeard()).toEqual([false, false, false]);
  });
});
