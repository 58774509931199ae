import {
  Counter,
  Gauge,
  Histogram,
  type OpenMetricsContentType,
  type PrometheusContentType,
  type Registry,
  register as defaultRegister,
} from 'prom-client';
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
import { Tally } from './metrics/tally.ts';

type Register = Registry<PrometheusContentType> | Registry<OpenMetricsContentType>;

export interface PrometheusOptions {
  /** Where the metrics are registered; default prom-client's own `register`. */
  readonly register?: Register;
  /** What the names of the metrics begin with: letters, digits, `_` and `:`; default `"tollgate_"`. */
  readonly prefix?: string;
}

/** What every metric of prom-client is made with. */
interface Config {
  readonly name: string;
  readonly help: string;
  readonly labelNames: readonly string[];
  readonly registers: Register[];
}

const OPTIONS = ['register', 'prefix'] as const;
const PREFIX = /^(?:[A-Za-z_:][\w:]*)?$/;

/**
 * Counts what all limiters and gates of this process decide, for Prometheus, from now on. `docs/metrics.md` has the
 * names and labels.
 *
 * @returns what ends that, and takes the metrics out of the register.
 * @throws TollgateConfigError for a wrong option; prom-client's error when a name is taken in the register.
 */
export function collectPrometheus(options: PrometheusOptions = {}): () => void {
  checkOptions(options);
  const { register = defaultRegister, prefix = 'tollgate_' } = options;
  const names: string[] = [];
  const add = <M>(definition: Definition, suffix: string, make: (config: Config) => M): M => {
    const { name, help, labels } = definition;
    const full = `${prefix}${name.replaceAll('.', '_')}${suffix}`;
    const made = make({ name: full, help, labelNames: labels, registers: [register] });
    names.push(full);
    return made;
  };
  let calls: Histogram | undefined;
  const tally = new Tally(({ labels, seconds }) => calls?.observe(labels, seconds));
  const stop = (): void => {
    tally.stop();
    for (const name of names.splice(0)) register.removeSingleMetric(name);
  };
  try {
    for (const [name, definition] of Object.entries(COUNTERS)) {
      add(definition, '_total', (config) => counter(config, tally, name as CounterName));
    }
    for (const [name, definition] of Object.entries(GAUGES)) {
      add(definition, '', (config) => gauge(config, tally, name as GaugeName));
    }
    calls = add(
      CALL_DURATION,
      '_seconds',
      (config) => new Histogram({ ...config, buckets: [...CALL_DURATION.buckets] }),
    );
  } catch (error) {
    stop();
    throw error;
  }
  return stop;
}

function counter(config: Config, tally: Tally, name: CounterName): Counter {
  return new Counter({
    ...config,
    collect() {
      this.reset();
      for (const { labels, value } of tally.counted(name)) this.inc(labels, value);
    },
  });
}

function gauge(config: Config, tally: Tally, name: GaugeName): Gauge {
  return new Gauge({
    ...config,
    collect() {
      this.reset();
      for (const { labels, value } of tally.read(name)) this.set(labels, value);
    },
  });
}

function checkOptions(options: PrometheusOptions): void {
  if (typeof options !== 'object' || options === null) {
    throw new TollgateConfigError('', `expected options such as { prefix }, got ${show(options)}`);
  }
  refuseUnknown(options, OPTIONS, '');
  const { register, prefix } = options;
  if (register !== undefined && typeof register?.registerMetric !== 'function') {
    throw new TollgateConfigError(
      'register',
      `expected a Registry of prom-client, got ${show(register)}`,
    );
  }
  if (prefix !== undefined && !(typeof prefix === 'string' && PREFIX.test(prefix))) {
    throw new TollgateConfigError(
      'prefix',
      `expected letters, digits, "_" and ":", such as "shop_tollgate_", got ${show(prefix)}`,
    );
  }
}
