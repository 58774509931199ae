import { hostname } from 'node:os';
import type { Policy, RefusedKey, Store } from '@tollgate/core';
import type { Operator } from './access.ts';
import { type Counts, type Outcome, type Range, RANGES } from './series.ts';
import type { MostRefused, Watched } from './watched.ts';
import { describePolicy, length } from './words.ts';

type BanRule = NonNullable<Watched['limiter']['limits']['all'][number]['ban']>;

export interface PolicyState {
  readonly algorithm: string;
  readonly numbers: string;
}

export interface LimitState {
  readonly name: string;
  readonly shadow: boolean;
  /** One, or those that requests brought so far. */
  readonly policies: readonly PolicyState[];
  /** Whether requests bring their policies. */
  readonly varies: boolean;
  readonly ban: string | undefined;
  readonly whenStoreFails: string;
  /** Since the dashboard was made. */
  readonly totals: Readonly<Record<Outcome, number>>;
  readonly counts: Counts;
  readonly refused: readonly Omit<RefusedKey, 'limit' | 'shadow'>[];
}

/** What the page shows, as it is fetched again and again. */
export interface State {
  /** Milliseconds since the epoch, as are all that end in Ms but for `stepMs`. */
  readonly atMs: number;
  readonly operator: string | undefined;
  readonly process: { readonly id: number; readonly host: string; readonly sinceMs: number };
  readonly store: {
    readonly state: ReturnType<NonNullable<Store['health']>>['store'];
    readonly sinceMs: number;
    readonly lastError: string | undefined;
    readonly shared: boolean;
    readonly bans: boolean;
  };
  readonly range: Range;
  /** When the oldest step of the counts began. */
  readonly fromMs: number;
  readonly stepMs: number;
  readonly keys: 'clear' | 'hash' | 'hidden';
  readonly refusedOf: MostRefused['scope'];
  readonly refusedError: string | undefined;
  readonly limits: readonly LimitState[];
}

export async function stateOf(watched: Watched, operator: Operator, range: Range): Promise<State> {
  const { limiter, traffic } = watched;
  const { scope, error, keys } = await watched.mostRefused();
  const { store, since, lastError } = limiter.health();
  const atMs = Date.now();
  return {
    atMs,
    operator: operator.name,
    process: { id: process.pid, host: hostname(), sinceMs: traffic.sinceMs },
    store: {
      state: store,
      sinceMs: since,
      lastError: lastError === undefined ? undefined : safeMessage(lastError),
      shared: limiter.store.async,
      bans: limiter.store.ban !== undefined,
    },
    range,
    fromMs: atMs - traffic.ageMs(range),
    stepMs: RANGES[range],
    keys: shownAs((key) => limiter.shownKey(key)),
    refusedOf: scope,
    refusedError: error === undefined ? undefined : safeMessage(error),
    limits: limiter.limits.all.map((limit) => {
      const { policies, totals } = traffic.of(limit.name);
      const fixed = limit.rules?.policy;
      return {
        name: limit.name,
        shadow: limit.shadow,
        policies: (fixed === undefined ? policies : [fixed]).map(policyState),
        varies: fixed === undefined,
        ban: limit.ban && describeBan(limit.ban),
        whenStoreFails: whenStoreFails(limit.whenStoreFails),
        totals,
        counts: traffic.read(limit.name, range),
        refused: keys
          .filter((each) => each.limit === limit.name)
          .map(({ limit: _limit, shadow: _shadow, ...rest }) => rest),
      };
    }),
  };
}

export function policyState(policy: Policy): PolicyState {
  return describePolicy(policy);
}

/** What an error says, without the password of an address in it. */
export function safeMessage(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replaceAll(/\/\/[^/\s]*@/g, '//').slice(0, 300);
}

function shownAs(shownKey: (key: string) => string | undefined): State['keys'] {
  const shown = shownKey('key');
  if (shown === undefined) return 'hidden';
  return shown === 'key' ? 'clear' : 'hash';
}

function describeBan({ after, within, first, growth, max }: BanRule): string {
  const grows =
    growth > 1 ? `, each further ban ${growth} times as long, up to ${length(max / 1_000)}` : '';
  const refusals = after === 1 ? 'a refusal' : `${after} refusals within ${length(within / 1_000)}`;
  return `banned for ${length(first / 1_000)} after ${refusals}${grows}`;
}

function whenStoreFails(value: unknown): string {
  if (value === 'allow') return 'lets requests pass';
  if (value === 'deny') return 'refuses';
  const share = (value as { local?: { share: number } }).local?.share;
  const part =
    share === undefined ? '' : ` with ${Number((share * 100).toFixed(2))} % of the budget`;
  return `each process counts alone${part}`;
}
