import { channel } from 'node:diagnostics_channel';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createLimiter } from '../src/limiter.ts';
import { observeOpenTelemetry } from '../src/opentelemetry.ts';
import { fixedWindow } from '../src/policy.ts';
import { Reader } from './metric-reader.ts';

/** Whether anybody else listens, in this process of many test files. */
const others = channel('tollgate:decision').hasSubscribers;
const limits = [{ name: 'ip', policy: fixedWindow({ limit: 2, window: '1d' }) }];

describe('OpenTelemetry', () => {
  it('is told no more once that is stopped', async () => {
    const reader = new Reader();
    const provider = new MeterProvider({ readers: [reader] });
    onTestFinished(() => provider.shutdown());
    const stop = observeOpenTelemetry({ meter: provider.getMeter('shop') });
    const limiter = createLimiter({ limits });
    limiter.consume({ ip: 'a' });
    stop();
    stop();
    limiter.consume({ ip: 'a' });
    expect(channel('tollgate:decision').hasSubscribers).toBe(others);
    expect(await reader.values()).toEqual({});
  });

  it.each<[object, string]>([
    [{ meters: [] }, 'meters'],
    [{ meter: {} }, 'meter'],
  ])('takes no wrong option: %o', (options, path) => {
    expect(() => observeOpenTelemetry(options)).toThrow(expect.objectContaining({ path }));
    expect(channel('tollgate:decision').hasSubscribers).toBe(others);
  });
});
