import { afterEach, beforeEach, describe, expect, it, test, vi } from 'vitest';
import { TollgateConfigError } from '../src/errors.ts';
import { EventLoop, type Sampler } from '../src/http/event-loop.ts';
import { type Entrance, LoadShedder, loadShedder } from '../src/http/shedder.ts';
import type { LoopSample } from '../src/http/shedding.ts';
import { OwnProcess } from './own-process.ts';

const GOALS = { maxUtilization: 0.9, maxDelayMs: 50, sampleMs: 200, restoreMs: 10_000 };
const PRIORITIES = ['critical', 'normal', 'sheddable'];

/** Says what a test wants an event loop to say, and counts who looks. */
class Loop implements Sampler {
  busy = false;
  lookers = 0;
  samples = 0;

  start(): void {
    this.lookers++;
  }

  sample(): LoopSample {
    this.samples++;
    return { elapsedMs: 200, utilization: this.busy ? 1 : 0.1, delayMs: this.busy ? 100 : 0 };
  }

  stop(): void {
    this.lookers--;
  }
}

describe('a shedder', () => {
  let loop: Loop;
  let shedder: LoadShedder;
  let entrance: Entrance;

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
    loop = new Loop();
    shedder = new LoadShedder(GOALS, loop);
    entrance = shedder.entrance(PRIORITIES, 'normal');
  });
  afterEach(() => {
    entrance.close();
    vi.useRealTimers();
  });

  /** Lets a hundred normal requests come in each of so many samples. */
  function pass(samples: number): void {
    for (let i = 0; i < samples; i++) {
      for (let j = 0; j < 100; j++) entrance.refuse(undefined);
      vi.advanceTimersByTime(GOALS.sampleMs);
    }
  }

  it('looks at the event loop from the first request until its gate closes', () => {
    vi.advanceTimersByTime(10_000);
    expect([loop.lookers, loop.samples]).toEqual([0, 0]);
    entrance.refuse('critical');
    expect(loop.lookers).toBe(1);
    vi.advanceTimersByTime(1_000);
    expect(loop.samples).toBe(5);
    entrance.close();
    entrance.close();
    expect(entrance.refuse('normal')).toBeUndefined();
    vi.advanceTimersByTime(10_000);
    expect([loop.lookers, loop.samples]).toEqual([0, 5]);
    expect(vi.getTimerCount()).toBe(0);
  });

  it('serves several gates with one look', () => {
    const other = shedder.entrance(['high', 'low'], 'low');
    entrance.refuse(undefined);
    other.refuse(undefined);
    vi.advanceTimersByTime(1_000);
    expect([loop.lookers, loop.samples]).toEqual([1, 5]);
    entrance.close();
    vi.advanceTimersByTime(1_000);
    expect([loop.lookers, loop.samples]).toEqual([1, 10]);
    loop.busy = true;
    for (let i = 0; i < 20; i++) {
      other.refuse('low');
      vi.advanceTimersByTime(GOALS.sampleMs);
    }
    expect(other.refuse('low')).toBeDefined();
    expect(other.refuse('high')).toBeUndefined();
    other.close();
    expect(loop.lookers).toBe(0);
  });

  it('says what it finds and what it does about it', () => {
    expect([shedder.level, shedder.utilization, shedder.delayMs]).toEqual([0, 0, 0]);
    loop.busy = true;
    pass(20);
    expect(shedder.level).toBeGreaterThan(0.9);
    expect(shedder.utilization).toBeGreaterThan(0.99);
    expect(shedder.delayMs).toBeGreaterThan(99);
    loop.busy = false;
    pass(60);
    expect([shedder.level, shedder.utilization]).toEqual([0, expect.closeTo(0.1, 9)]);
  });

  it('refuses as overloaded, with the time to restore and without a verdict', () => {
    loop.busy = true;
    pass(30);
    const refusal = entrance.refuse(undefined);
    expect(refusal).toMatchObject({
      allowed: false,
      reason: 'overloaded',
      verdicts: [],
      binding: undefined,
      limit: Infinity,
      remaining: Infinity,
      delayMs: 0,
      source: 'none',
      priority: 'normal',
    });
    expect(refusal?.retryAfterMs).toBe(Math.ceil(shedder.level * GOALS.restoreMs));
    expect(refusal?.toJSON()).toMatchObject({ reason: 'overloaded', verdicts: [] });
    expect(refusal?.settle(5)).toBeUndefined();
    expect(refusal?.release()).toBeUndefined();
  });

  it('asks for a second at least', () => {
    loop.busy = true;
    pass(1);
    while (shedder.level < 0.03) pass(1);
    loop.busy = false;
    while (shedder.level > 0.05) pass(1);
    expect(shedder.level).toBeGreaterThan(0);
    let refusal = entrance.refuse(undefined);
    while (refusal === undefined) refusal = entrance.refuse(undefined);
    expect(refusal.retryAfterMs).toBe(1_000);
  });

  it('asks about a request once, however many gates it passes', () => {
    const other = shedder.entrance(PRIORITIES, 'normal');
    loop.busy = true;
    pass(30);
    const request = {};
    expect(entrance.refuseOnce(request, 'normal')).toBeDefined();
    expect(entrance.refuseOnce(request, 'normal')).toBeUndefined();
    expect(other.refuseOnce(request, 'normal')).toBeUndefined();
    expect(other.refuseOnce({}, 'normal')).toBeDefined();
    other.close();
  });

  it('names the priorities that there are', () => {
    expect(() => entrance.refuse('vip')).toThrow(
      'There is no priority "vip" (string); there are critical, normal, sheddable.',
    );
  });
});

describe('options', () => {
  test.each<[options: unknown, path: string, mend: string]>([
    [null, '', 'options'],
    [{ maxUtilisation: 0.5 }, 'maxUtilisation', 'unknown'],
    [{ maxUtilization: 0 }, 'maxUtilization', 'above 0'],
    [{ maxUtilization: 90 }, 'maxUtilization', 'up to 1'],
    [{ maxUtilization: '0.9' }, 'maxUtilization', 'share'],
    [{ maxUtilization: NaN }, 'maxUtilization', 'share'],
    [{ maxDelayMs: 0 }, 'maxDelayMs', 'above 0'],
    [{ maxDelayMs: 'soon' }, 'maxDelayMs', 'duration'],
    [{ sampleMs: 5 }, 'sampleMs', '10 ms'],
    [{ sampleMs: '1m' }, 'sampleMs', '10 s'],
    [{ restoreMs: -1 }, 'restoreMs', 'above 0'],
    [{ sampleMs: '2s', restoreMs: '1s' }, 'restoreMs', 'sampleMs'],
  ])('%j fail at the start', (options, path, mend) => {
    let error: unknown;
    try {
      loadShedder(options as object);
    } catch (thrown) {
      error = thrown;
    }
    expect(error).toBeInstanceOf(TollgateConfigError);
    expect(error).toMatchObject({ path, message: expect.stringContaining(mend) as string });
  });

  it('need not be given, and may be durations', () => {
    expect(loadShedder().level).toBe(0);
    expect(loadShedder({ maxDelayMs: '30ms', sampleMs: '1s', restoreMs: '1m' }).level).toBe(0);
  });

  it('need more than one priority', () => {
    expect(() => loadShedder().entrance(['only'], 'only')).toThrow(
      /^priorities: .*add a lower one/,
    );
  });
});

describe('the event loop of a process', () => {
  it('is idle, then busy and late, as it is', async () => {
    const alone = await OwnProcess.prepare();
    try {
      const { code, result } = await alone.run(`
        const shedder = core.loadShedder({ sampleMs: 100, maxUtilization: 1, maxDelayMs: 1e6 });
        const entrance = shedder.entrance(['high', 'low'], 'low');
        entrance.refuse('low');
        await new Promise((resolve) => setTimeout(resolve, 1_500));
        const idle = { idle: shedder.utilization, idleDelay: shedder.delayMs };
        const end = performance.now() + 2_000;
        await new Promise((resolve) => {
          (function turn() {
            const until = performance.now() + 60;
            while (performance.now() < until);
            if (performance.now() < end) setImmediate(turn);
            else resolve();
          })();
        });
        console.log(JSON.stringify({ ...idle, busy: shedder.utilization, busyDelay: shedder.delayMs }));
      `);
      // It ended although nobody closed the shedder.
      expect(code).toBe(0);
      expect(result['idle']).toBeLessThan(0.5);
      expect(result['idleDelay']).toBeLessThan(30);
      expect(result['busy']).toBeGreaterThan(0.95);
      // Turns of 60 ms are 40 ms late for what looks every 20 ms.
      expect(result['busyDelay']).toBeGreaterThan(30);
    } finally {
      await alone.clear();
    }
  });

  it('is not said to be late because nothing was seen of it', () => {
    const loop = new EventLoop(200);
    loop.start();
    expect(loop.sample().delayMs).toBe(0);
    loop.stop();
  });
});
