import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { Band, type LoopSample, Shedding } from '../src/http/shedding.ts';
import { EventLoopPlant, type Stream } from './event-loop-plant.ts';

const SAMPLE_MS = 200;
const RESTORE_MS = 10_000;
const GOALS = { maxUtilization: 0.9, maxDelayMs: 50, sampleMs: SAMPLE_MS, restoreMs: RESTORE_MS };
const BUSY: LoopSample = { elapsedMs: SAMPLE_MS, utilization: 1, delayMs: 100 };
const IDLE: LoopSample = { elapsedMs: SAMPLE_MS, utilization: 0, delayMs: 0 };

/** Lets so many requests of each priority come, the highest first, and says how many were refused. */
function come(shedding: Shedding, ...counts: number[]): number[] {
  return counts.map((count, rank) => {
    const band = shedding.band(rank);
    return Array.from({ length: count }, () => band.sheds()).filter(Boolean).length;
  });
}

/** Takes samples until the level has reached `level`. */
function raise(shedding: Shedding, level: number): void {
  while (shedding.level < level) shedding.update(BUSY);
}

describe('a band', () => {
  it.each([0, 1, 30, 50, 67, 99, 100])('refuses exactly %i of any hundred in a row', (share) => {
    const band = new Band();
    band.share = share;
    const sheds = Array.from({ length: 300 }, () => band.sheds());
    for (let first = 0; first <= 200; first++) {
      const refused = sheds.slice(first, first + 100).filter(Boolean).length;
      expect(refused).toBe(share);
    }
  });

  it('refuses evenly: of any number in a row about the share', () => {
    const band = new Band();
    band.share = 30;
    const sheds = Array.from({ length: 200 }, () => band.sheds());
    for (let first = 0; first < 100; first++) {
      for (let count = 1; count <= 100; count++) {
        const refused = sheds.slice(first, first + count).filter(Boolean).length;
        expect(Math.abs(refused - 0.3 * count)).toBeLessThan(2.5);
      }
    }
  });

  it.each([2, 3, 4, 5, 10])('refuses none of %i callers in turn more than others', (callers) => {
    const band = new Band();
    band.share = 50;
    const refused = Array.from({ length: callers }, () => 0);
    for (let i = 0; i < 100 * callers; i++) {
      const caller = i % callers;
      if (band.sheds()) refused[caller] = (refused[caller] ?? 0) + 1;
    }
    for (const count of refused) expect(Math.abs(count - 50)).toBeLessThanOrEqual(2);
  });
});

describe('the level', () => {
  it('rises while a goal is missed, by 30 % of what is admitted at most', () => {
    const shedding = new Shedding(GOALS);
    come(shedding, 0, 100);
    let admitted = 1;
    for (let i = 0; i < 10; i++) {
      shedding.update(BUSY);
      expect(1 - shedding.level).toBeLessThanOrEqual(admitted);
      expect(1 - shedding.level).toBeGreaterThanOrEqual(0.7 * admitted - 1e-12);
      admitted = 1 - shedding.level;
    }
    expect(shedding.level).toBeGreaterThan(0.8);
  });

  it('rises by a late sample as by those it stands for', () => {
    const [late, timely] = [new Shedding(GOALS), new Shedding(GOALS)];
    for (const shedding of [late, timely]) come(shedding, 0, 100);
    const stuck = { utilization: 1, delayMs: 1_000 };
    late.update({ elapsedMs: 3 * SAMPLE_MS, ...stuck });
    for (let i = 0; i < 3; i++) timely.update({ elapsedMs: SAMPLE_MS, ...stuck });
    expect(late.level).toBeCloseTo(timely.level, 9);
    // After hours, as when a machine slept, no more than after four.
    const slept = new Shedding(GOALS);
    slept.update({ elapsedMs: 3_600_000, ...stuck });
    expect(slept.level).toBeCloseTo(1 - 0.7 ** 4, 9);
  });

  it('falls evenly once the load is gone, by all of it in the time to restore', () => {
    const shedding = new Shedding(GOALS);
    raise(shedding, 0.6);
    // What was before is forgotten first.
    while (shedding.utilization > 0.8 || shedding.delayMs > 40) shedding.update(IDLE);
    const before = shedding.level;
    expect(shedding.restoreAfterMs).toBeCloseTo(before * RESTORE_MS, 6);
    const samples = Math.ceil(shedding.restoreAfterMs / SAMPLE_MS);
    for (let i = 1; i < samples; i++) {
      shedding.update(IDLE);
      expect(shedding.level).toBeCloseTo(before - (i * SAMPLE_MS) / RESTORE_MS, 9);
    }
    shedding.update(IDLE);
    expect(shedding.level).toBe(0);
  });

  it('stays where it is between the goals and nine tenths of them', () => {
    const shedding = new Shedding(GOALS);
    raise(shedding, 0.3);
    const near = { elapsedMs: SAMPLE_MS, utilization: 0.86, delayMs: 10 };
    while (shedding.utilization > 0.89 || shedding.delayMs > 44) shedding.update(near);
    const { level } = shedding;
    for (let i = 0; i < 100; i++) shedding.update(near);
    expect(shedding.level).toBe(level);
  });

  it('goes by the delay alone where the loop may always be busy', () => {
    const shedding = new Shedding({ ...GOALS, maxUtilization: 1 });
    for (let i = 0; i < 20; i++) shedding.update({ ...BUSY, delayMs: 30 });
    expect(shedding.level).toBe(0);
    for (let i = 0; i < 20; i++) shedding.update({ ...BUSY, delayMs: 100 });
    expect(shedding.level).toBeGreaterThan(0.5);
    for (let i = 0; i < 100; i++) shedding.update({ ...BUSY, delayMs: 30 });
    expect(shedding.level).toBe(0);
  });

  it('is no reason to shed after one hiccup of half a second', () => {
    const shedding = new Shedding(GOALS);
    for (let i = 0; i < 10; i++) shedding.update({ ...IDLE, utilization: 0.5 });
    // A turn of 300 ms among nine that were in time.
    shedding.update({ elapsedMs: 500, utilization: 0.8, delayMs: 30 });
    expect(shedding.level).toBe(0);
  });
});

describe('what is shed', () => {
  it('is the lowest priority first, by the mix that comes', () => {
    const shedding = new Shedding(GOALS);
    const refused: number[][] = [];
    for (let i = 0; i < 12; i++) {
      refused.push(come(shedding, 200, 300, 500));
      shedding.update(BUSY);
    }
    expect(refused[0]).toEqual([0, 0, 0]);
    for (const [critical = 0, normal = 0, sheddable = 0] of refused) {
      expect(critical).toBe(0);
      if (normal > 0) expect(sheddable).toBe(500);
    }
    expect(refused.at(-1)).toEqual([0, 300, 500]);
  });

  it.each([
    [0.1, [0, 0, 20]],
    [0.5, [0, 0, 100]],
    [0.65, [0, 50, 100]],
    [0.8, [0, 100, 100]],
  ])('adds up to a level of %f', (level, shares) => {
    // So that a sample lowers it by nothing to speak of.
    const shedding = new Shedding({ ...GOALS, restoreMs: 1e12 });
    come(shedding, 200, 300, 500);
    shedding.level = level;
    shedding.update(IDLE);
    expect(shares.map((_, rank) => shedding.band(rank).share)).toEqual(shares);
  });

  it('is never the highest priority, and the level does not rise in vain', () => {
    const shedding = new Shedding(GOALS);
    for (let i = 0; i < 100; i++) {
      expect(come(shedding, 60, 40)[0]).toBe(0);
      shedding.update({ ...BUSY, delayMs: 5_000 });
    }
    expect(shedding.level).toBeCloseTo(0.4, 9);
    expect(come(shedding, 0, 100)).toEqual([0, 100]);
  });

  it('takes what never came before as the level has it', () => {
    const shedding = new Shedding(GOALS);
    come(shedding, 0, 100, 0);
    raise(shedding, 0.5);
    const [, normal = 0] = come(shedding, 0, 100);
    expect(normal).toBeGreaterThan(40);
    expect(normal).toBeLessThan(70);
    expect(shedding.band(2).share).toBe(100);
  });
});

/** Of a generator that repeats itself, so that a history is the same in every run. */
function irregular(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

const even = (): number => 1 - 1 / Math.E;

/** An overload that does not change: `factor` times what can be served, of which the highest priority alone fits. */
const OVERLOADS = fc.record({
  factor: fc.double({ min: 1.3, max: 6, noNaN: true }),
  workMs: fc.integer({ min: 2, max: 20 }),
  highest: fc.double({ min: 0.05, max: 0.5, noNaN: true }),
  middle: fc.double({ min: 0.05, max: 0.95, noNaN: true }),
});

type Overload = typeof OVERLOADS extends fc.Arbitrary<infer T> ? T : never;

function streamsOf({ factor, workMs, highest, middle }: Overload): Stream[] {
  const capacity = 1_000 / workMs;
  const rest = (factor - highest) * capacity;
  return [
    { rank: 0, perSecond: highest * capacity },
    { rank: 1, perSecond: middle * rest },
    { rank: 2, perSecond: (1 - middle) * rest },
  ];
}

describe('a process under a constant overload', () => {
  test.each([
    ['evenly', even, 20, 0.05, 0.1],
    ['irregularly', irregular(7), 6, 0.2, 0.1],
    // Of long requests too few come in a sample to say much, and the goal of the delay is met below that of the load.
    ['irregularly, in long requests,', irregular(7), 20, 0.5, 0.2],
  ])(
    'that comes %s sheds about what is too much, without flapping',
    (_, random, longestMs, amplitude, distance) => {
      fc.assert(
        fc.property(OVERLOADS, (drawn) => {
          const overload = { ...drawn, workMs: Math.min(drawn.workMs, longestMs) };
          const shedding = new Shedding(GOALS);
          const plant = new EventLoopPlant(shedding, SAMPLE_MS, overload.workMs, random);
          const streams = streamsOf(overload);
          plant.run(streams, 5_000);
          plant.take();
          plant.run(streams, 15_000);
          const [critical, , sheddable] = plant.take();
          const levels = plant.levels.slice(-70);
          // Found within five seconds, and then kept.
          expect(Math.max(...levels) - Math.min(...levels)).toBeLessThan(amplitude);
          const right = 1 - GOALS.maxUtilization / overload.factor;
          const mean = levels.reduce((sum, level) => sum + level, 0) / levels.length;
          expect(Math.abs(mean - right)).toBeLessThan(distance);
          expect(critical?.refused).toBe(0);
          // The queue that grew meanwhile is gone, and none grows again.
          expect(critical?.longestWaitMs).toBeLessThan(500);
          if (overload.middle < 0.5) expect(sheddable?.refused).toBeGreaterThan(0);
        }),
        { numRuns: 25 },
      );
    },
  );

  it('is back to normal within the time to restore, and a second, after it', () => {
    fc.assert(
      fc.property(OVERLOADS, (overload) => {
        const shedding = new Shedding(GOALS);
        const plant = new EventLoopPlant(shedding, SAMPLE_MS, overload.workMs, even);
        plant.run(streamsOf(overload), 10_000);
        const { restoreAfterMs } = shedding;
        expect(restoreAfterMs).toBeGreaterThan(1_000);
        const light = streamsOf({ ...overload, factor: 0.5, highest: 0.1 });
        plant.run(light, restoreAfterMs + 1_000);
        expect(shedding.level).toBe(0);
        plant.take();
        plant.run(light, 5_000);
        for (const { refused } of plant.take()) expect(refused).toBe(0);
      }),
      { numRuns: 25 },
    );
  });

  it.each([2, 5])('of none: at half its capacity, in work of %i ms, sheds nothing', (workMs) => {
    const shedding = new Shedding(GOALS);
    const plant = new EventLoopPlant(shedding, SAMPLE_MS, workMs, irregular(3));
    plant.run(streamsOf({ factor: 0.5, workMs, highest: 0.1, middle: 0.5 }), 60_000);
    expect(Math.max(...plant.levels)).toBe(0);
  });
});
