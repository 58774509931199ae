import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent, get, type IncomingMessage } from 'node:http';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { build } from '../readme/built.ts';

const WORK_MS = 20;
const CAPACITY = 1_000 / WORK_MS;
/** Requests a second: three times what can be served. */
const LOAD = 3 * CAPACITY;
const PRIORITIES = ['critical', 'normal', 'sheddable'] as const;
type Priority = (typeof PRIORITIES)[number];
/** Of ten requests two are critical, and five are the first to go. */
const TEN = '0212021212';
/** How long the shedder is given to find its level, and how long the answers count from then on. */
const SETTLE_MS = 2_500;
const COUNTED_MS = 4_000;
/** Open from the start, as a proxy keeps them: Node accepts one new connection in a turn of the loop. */
const CONNECTIONS = 300;
/** What critical requests wait at least without a shedder; with one it is less than half of that, whatever the machine. */
const BOUND_MS = 2_000;

beforeAll(build, 180_000);

interface Asked {
  readonly priority: Priority;
  readonly atMs: number;
  /** Undefined as long as there is no answer. */
  status?: number | undefined;
  retryAfter?: string | undefined;
  answeredMs?: number;
}

/** Overloads a server, and returns what became of the requests that were sent once the shedder had its time. */
async function overload(sheds: boolean): Promise<{ asked: Asked[]; endMs: number }> {
  const server = fork(new URL('overload-server.mjs', import.meta.url), {
    execArgv: [],
    env: { ...process.env, WORK_MS: `${WORK_MS}`, SHEDS: sheds ? 'yes' : 'no' },
  });
  const ended = once(server, 'exit');
  const agent = new Agent({ keepAlive: true, maxFreeSockets: CONNECTIONS });
  onTestFinished(async () => {
    server.kill('SIGKILL');
    await ended;
  });
  const [port] = (await once(server, 'message')) as [number];
  const asked: Asked[] = [];
  const ask = (priority: Priority): void => {
    const each: Asked = { priority, atMs: performance.now() };
    asked.push(each);
    const request = get({ host: '127.0.0.1', port, agent, headers: { 'x-priority': priority } });
    request.on('error', () => undefined);
    request.on('response', (response) => {
      each.status = response.statusCode;
      each.retryAfter = response.headers['retry-after'];
      each.answeredMs = performance.now();
      response.resume();
    });
  };
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      const request = get({ host: '127.0.0.1', port, agent, path: '/open' });
      const [response] = (await once(request, 'response')) as [IncomingMessage];
      await once(response.resume(), 'end');
    }),
  );
  const startMs = performance.now();
  const endMs = await new Promise<number>((resolve) => {
    // However late this timer is, as many are sent as are due: nobody waits for answers.
    const timer = setInterval(() => {
      const nowMs = performance.now();
      while (asked.length < (LOAD * (nowMs - startMs)) / 1_000) {
        ask(PRIORITIES[Number(TEN[asked.length % 10])] ?? 'normal');
      }
      if (nowMs - startMs < SETTLE_MS + COUNTED_MS) return;
      clearInterval(timer);
      resolve(nowMs);
    }, 5);
  });
  agent.destroy();
  server.kill('SIGKILL');
  await ended;
  return { asked: asked.filter(({ atMs }) => atMs - startMs >= SETTLE_MS), endMs };
}

/** The time that 99 of 100 critical requests took at most; those without an answer as long as they waited. */
function p99({ asked, endMs }: Awaited<ReturnType<typeof overload>>): number {
  const times = asked
    // The last to be sent had no time for an answer.
    .filter(({ priority, atMs }) => priority === 'critical' && endMs - atMs > BOUND_MS)
    .map(({ atMs, answeredMs = endMs }) => answeredMs - atMs)
    .sort((a, b) => a - b);
  return times[Math.ceil(0.99 * times.length) - 1] ?? NaN;
}

it('serves what matters most in time at three times the load, which it does not otherwise', async () => {
  const without = await overload(false);
  const shed = await overload(true);
  const times = { without: p99(without), shed: p99(shed) };
  // Their wait was still growing when the server was ended.
  expect(times.without).toBeGreaterThan(BOUND_MS);
  expect(times.shed).toBeLessThan(times.without / 2);

  const refusals = shed.asked.filter(({ status }) => status === 503);
  expect(refusals.filter(({ retryAfter }) => !/^[1-9]\d*$/.test(retryAfter ?? ''))).toEqual([]);
  const shares = PRIORITIES.map((each) => {
    const of = ({ priority }: Asked): boolean => priority === each;
    return refusals.filter(of).length / shed.asked.filter(of).length;
  });
  const [critical = NaN, normal = NaN, sheddable = NaN] = shares;
  expect(critical).toBe(0);
  expect(sheddable).toBeGreaterThan(0.5);
  expect(sheddable).toBeGreaterThan(normal);
});
