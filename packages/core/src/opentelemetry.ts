import { type Attributes, type Meter, metrics, type Observable } from '@opentelemetry/api';
import type { ObservableResult } from '@opentelemetry/api';
import { show, TollgateConfigError } from './errors.ts';
import { refuseUnknown } from './limits.ts';
import {
  CALL_DURATION,
  type CounterName,
  COUNTERS,
  type Definition,
  type GaugeName,
  GAUGES,
} from './metrics/definitions.ts';
import type { Sample } from './metrics/series.ts';
import { Tally } from './metrics/tally.ts';

export interface OpenTelemetryOptions {
  /** Default the global one by the name `@tollgate/core`, of the meter provider that is registered by then. */
  readonly meter?: Meter;
}

const OPTIONS = ['meter'] as const;

/**
 * Counts what all limiters and gates of this process decide, for OpenTelemetry, from now on. `docs/metrics.md` has the
 * names and attributes. Register a meter provider before, or pass a meter: what was made without one never counts.
 *
 * @returns what ends that.
 * @throws TollgateConfigError for a wrong option.
 */
export function observeOpenTelemetry(options: OpenTelemetryOptions = {}): () => void {
  checkOptions(options);
  const { meter = metrics.getMeter('@tollgate/core') } = options;
  const calls = meter.createHistogram(nameOf(CALL_DURATION), {
    ...described(CALL_DURATION),
    advice: { explicitBucketBoundaries: [...CALL_DURATION.buckets] },
  });
  const tally = new Tally(({ labels, seconds }) => calls.record(seconds, attributesOf(labels)));
  const ends = [(): void => tally.stop()];
  const observe = (observable: Observable, samples: () => Iterable<Sample>): void => {
    const report = (result: ObservableResult): void => {
      for (const { labels, value } of samples()) result.observe(value, attributesOf(labels));
    };
    observable.addCallback(report);
    ends.push(() => observable.removeCallback(report));
  };
  for (const [name, definition] of Object.entries(COUNTERS)) {
    const counter = meter.createObservableCounter(nameOf(definition), described(definition));
    observe(counter, () => tally.counted(name as CounterName));
  }
  for (const [name, definition] of Object.entries(GAUGES)) {
    const gauge = meter.createObservableGauge(nameOf(definition), described(definition));
    observe(gauge, () => tally.read(name as GaugeName));
  }
  return () => {
    for (const end of ends.splice(0)) end();
  };
}

function nameOf({ name }: Definition): string {
  return `tollgate.${name}`;
}

function described({ help, unit }: Definition): { description: string; unit: string } {
  return { description: help, unit };
}

function attributesOf(labels: Readonly<Record<string, string>>): Attributes {
  return Object.fromEntries(
    Object.entries(labels).map(([label, value]) => [`tollgate.${label}`, value]),
  );
}

function checkOptions(options: OpenTelemetryOptions): void {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError('', `expected options such as { meter }, got ${show(options)}`);
  }
  refuseUnknown(options, OPTIONS, '');
  const { meter } = options;
  if (meter !== undefined && typeof meter?.createObservableCounter !== 'function') {
    throw new TollgateConfigError('meter', `expected a meter of a provider, got ${show(meter)}`);
  }
}
