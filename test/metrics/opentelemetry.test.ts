import { createLimiter, fixedWindow } from '@tollgate/core';
import { observeOpenTelemetry } from '@tollgate/core/opentelemetry';
import { metrics } from '@opentelemetry/api';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { describe, expect, it, onTestFinished } from 'vitest';
import { Reader } from '../../packages/core/test/metric-reader.ts';
import { Service } from './service.ts';

const limits = [{ name: 'ip', policy: fixedWindow({ limit: 2, window: '1d' }) }];

/** A meter provider with a reader, until the test is over. */
function provided(): { provider: MeterProvider; reader: Reader } {
  const reader = new Reader();
  const provider = new MeterProvider({ readers: [reader] });
  onTestFinished(() => provider.shutdown());
  return { provider, reader };
}

describe('OpenTelemetry', () => {
  it('is told what a service was asked, with Redis and without', async () => {
    const { provider, reader } = provided();
    const stop = observeOpenTelemetry({ meter: provider.getMeter('shop') });
    onTestFinished(stop);
    const service = await Service.open();
    const healthy = await service.useInHealth();
    expect(await reader.values()).toEqual(healthy);
    const down = await service.useInOutage(healthy);
    expect(await reader.values()).toEqual(down);

    const all = await reader.metrics();
    const units = Object.fromEntries(all.map(({ descriptor: { name, unit } }) => [name, unit]));
    expect(units).toEqual({
      'tollgate.store.call.duration': 's',
      'tollgate.decisions': '{decision}',
      'tollgate.decisions.degraded': '{decision}',
      'tollgate.verdicts': '{verdict}',
      'tollgate.store.errors': '{error}',
      'tollgate.store.state': '1',
    });
    const duration = all.find(({ descriptor }) => descriptor.name.endsWith('duration'));
    for (const outcome of ['ok', 'error']) {
      const calls = service.calls.filter(
        ({ error }) => (error === undefined) === (outcome === 'ok'),
      );
      const point = duration?.dataPoints.find(
        ({ attributes }) => attributes['tollgate.outcome'] === outcome,
      );
      expect(point?.attributes).toEqual({ 'tollgate.outcome': outcome, 'tollgate.store': 'shop:' });
      expect(point?.value).toMatchObject({
        count: calls.length,
        min: Math.min(...calls.map(({ durationMs }) => durationMs)) / 1_000,
        buckets: { boundaries: expect.arrayContaining([0.000_25, 0.001, 1]) },
      });
    }
  });

  it('goes by the global meter provider, where it is given no meter', async () => {
    const { provider, reader } = provided();
    metrics.setGlobalMeterProvider(provider);
    onTestFinished(() => metrics.disable());
    onTestFinished(observeOpenTelemetry());
    createLimiter({ limits }).consume({ ip: 'a' });
    expect(await reader.values()).toMatchObject({ 'decisions outcome=admitted source=store': 1 });
    const { resourceMetrics } = await reader.collect();
    expect(resourceMetrics.scopeMetrics.map(({ scope }) => scope.name)).toContain('@tollgate/core');
  });
});
