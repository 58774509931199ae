/** What a counter or a gauge counts, and by which labels. */
export interface Definition {
  /** Words with dots between, in OpenTelemetry's way, without a prefix. */
  readonly name: string;
  readonly help: string;
  readonly labels: readonly string[];
  /** In OpenTelemetry's way. */
  readonly unit: string;
}

export type CounterName =
  | 'decisions'
  | 'degraded'
  | 'verdicts'
  | 'storeErrors'
  | 'leases'
  | 'leasedUnits';

export type GaugeName = 'storeState' | 'memoryKeys';

/** What only grows. */
export const COUNTERS: Readonly<Record<CounterName, Definition>> = {
  decisions: {
    name: 'decisions',
    help: 'Requests decided, by outcome (admitted, or the reason of the refusal) and source.',
    labels: ['outcome', 'source'],
    unit: '{decision}',
  },
  degraded: {
    name: 'decisions.degraded',
    help: 'Requests decided at least in part without the store, which failed, by outcome.',
    labels: ['outcome'],
    unit: '{decision}',
  },
  verdicts: {
    name: 'verdicts',
    help: 'What each limit said of requests, by outcome and by mode (enforce or shadow).',
    labels: ['limit', 'outcome', 'mode'],
    unit: '{verdict}',
  },
  storeErrors: {
    name: 'store.errors',
    help: 'Faults of a store, each counted once however many requests met it.',
    labels: ['store'],
    unit: '{error}',
  },
  leases: {
    name: 'leases',
    help: 'Leases granted, denied, expired and returned.',
    labels: ['limit', 'event'],
    unit: '{lease}',
  },
  leasedUnits: {
    name: 'lease.units',
    help: 'Units of the leases granted, denied, expired and returned.',
    labels: ['limit', 'event'],
    unit: '{unit}',
  },
};

/** What is read when it is asked for. */
export const GAUGES: Readonly<Record<GaugeName, Definition>> = {
  storeState: {
    name: 'store.state',
    help: 'How a store is: 1 for the state it is in (up, down or probing), 0 for the others.',
    labels: ['store', 'state'],
    unit: '1',
  },
  memoryKeys: {
    name: 'memory.keys',
    help: 'Keys that memory stores hold.',
    labels: [],
    unit: '{key}',
  },
};

/** How long calls took, in seconds. */
export const CALL_DURATION: Definition & { readonly buckets: readonly number[] } = {
  name: 'store.call.duration',
  help: 'How long calls to Redis took, answered (ok) or not (error).',
  labels: ['store', 'outcome'],
  unit: 's',
  /** From what a Redis nearby takes to well above the default deadline of 0.1. */
  buckets: [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1],
};
