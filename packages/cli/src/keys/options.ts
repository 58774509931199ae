import { UsageError } from '../usage.ts';

/** What every `keys` command takes. */
export const SHARED = {
  redis: { type: 'string' },
  prefix: { type: 'string' },
  cluster: { type: 'boolean' },
  limits: { type: 'string' },
  limit: { type: 'string', multiple: true },
  json: { type: 'boolean' },
} as const;

type Text = { readonly type: 'string' };

/** What those about one key take. */
export const OF_A_KEY: typeof SHARED & { readonly 'hash-tag': Text; readonly as: Text } = {
  ...SHARED,
  'hash-tag': { type: 'string' },
  as: { type: 'string' },
};

/** What those take that change something. */
export const CHANGING: typeof OF_A_KEY & {
  readonly yes: { readonly type: 'boolean'; readonly short: 'y' };
} = { ...OF_A_KEY, yes: { type: 'boolean', short: 'y' } };

/** Where Redis is, and what the service's store was told. */
export interface StoreValues {
  readonly redis?: string | undefined;
  readonly prefix?: string | undefined;
  readonly cluster?: boolean | undefined;
  readonly 'hash-tag'?: string | undefined;
}

/** The address of Redis, which the environment keeps out of the list of processes. */
export function addressOf(action: string, { redis }: StoreValues): URL {
  const text = redis ?? process.env['TOLLGATE_REDIS'];
  if (text === undefined) {
    throw new UsageError(`keys ${action} needs --redis <url>, or the variable TOLLGATE_REDIS.`);
  }
  // It may hold a password, so that nothing of it is repeated.
  const problem =
    'The address of Redis must be a URL such as redis://127.0.0.1:6379, or rediss:// for TLS; percent-encode what is special in a password.';
  if (!/^rediss?:\/\//.test(text) || !URL.canParse(text)) throw new UsageError(problem);
  const url = new URL(text);
  if (url.hostname === '' || !/^\/?\d*$/.test(url.pathname)) throw new UsageError(problem);
  return url;
}
