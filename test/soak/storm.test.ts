import { beforeAll, describe, expect, it } from 'vitest';

interface Run {
  readonly strategy: string;
  readonly sent: number;
  readonly served: number;
  readonly wasted: number;
  readonly drainedMs: number | undefined;
  readonly goodput: number;
}

interface Storm {
  readonly compare: (options: {
    readonly clients: number;
    readonly rate: number;
    readonly mostMs: number;
    readonly atOnce: boolean;
  }) => Promise<Run[]>;
}

/** A smaller storm than the one of the docs. */
const CLIENTS = 30;
const RATE = 5;

describe('clients that a server refuses', () => {
  let naive: Run | undefined;
  let backingOff: Run | undefined;
  let obeying: Run | undefined;
  let limited: Run | undefined;

  beforeAll(async () => {
    const file = new URL('../../examples/storm.mjs', import.meta.url).href;
    const { compare } = (await import(file)) as Storm;
    const options = { clients: CLIENTS, rate: RATE, mostMs: 12_000, atOnce: true };
    [naive, backingOff, obeying, limited] = await compare(options);
  }, 60_000);

  it('are all served by @tollgate/fetch', () => {
    for (const run of [obeying, limited]) {
      expect(run?.served).toBe(CLIENTS);
      expect(run?.drainedMs).toBeDefined();
    }
  });

  it('send fewer requests when they obey than when they guess', () => {
    expect(obeying?.sent).toBeLessThan((naive?.sent ?? NaN) / 2);
    expect(obeying?.sent).toBeLessThan((backingOff?.sent ?? NaN) * 1.2);
  });

  it('send hardly any in vain when they share a limit', () => {
    expect(limited?.sent).toBeGreaterThanOrEqual(CLIENTS);
    // Where they and the server count apart, some come a moment too early.
    expect(limited?.sent).toBeLessThanOrEqual(CLIENTS * 1.2);
    expect(limited?.wasted).toBeLessThanOrEqual(CLIENTS / 10);
    // Five at once and the others at the server's rate, with a second of slack for a slow machine on top of a half.
    const idealMs = ((CLIENTS - 5) / RATE) * 1_000;
    expect(limited?.drainedMs).toBeGreaterThanOrEqual(idealMs - 50);
    expect(limited?.drainedMs).toBeLessThanOrEqual(idealMs * 1.5 + 1_000);
  });
});
