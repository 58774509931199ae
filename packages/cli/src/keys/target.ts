import {
  addressKey,
  apiKey,
  bearerToken,
  custom,
  type FileLimit,
  type HttpRequest,
  type KeyFunction,
  type Keys,
  limiterLimits,
  type LimitOptions,
  loadLimits,
  secret,
  tenant,
} from '@tollgate/core';
import { readFileSync } from 'node:fs';
import { UsageError } from '../usage.ts';

/** What a `keys` command is about: limits, and a key under each. */
export interface Target {
  readonly limits: readonly LimitOptions[];
  readonly keys: Keys;
  /** What whoever typed it may not have meant. */
  readonly notes: readonly string[];
}

export interface TargetValues {
  readonly limits?: string | undefined;
  readonly limit?: readonly string[] | undefined;
  readonly as?: string | undefined;
}

const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/;

/** How the keys of requests are made of what callers send. */
const KINDS: Readonly<Record<string, (value: string) => KeyFunction>> = {
  'api-key': (value) => withHeaders(apiKey({ optional: true }), { 'x-api-key': value }),
  bearer: (value) =>
    withHeaders(bearerToken({ optional: true }), { authorization: `Bearer ${value}` }),
  secret: (value) => secret(custom(() => value)),
  tenant: (value) => tenant(() => value),
  field: (value) => () => `field:${value}`,
};

/** The limits named by `--limits` and `--limit`; undefined where none are. */
export function limitsOf(values: TargetValues): readonly LimitOptions[] | undefined {
  const { limits: path, limit: names } = values;
  for (const name of names ?? []) {
    if (!NAME.test(name)) throw new UsageError(`--limit: "${name}" is no name of a limit.`);
  }
  if (path === undefined) return names?.map((name) => ({ name }));
  const all = limiterLimits(loadLimits(path));
  const unknown = names?.find((name) => !all.some((limit) => limit.name === name));
  if (unknown === undefined) return all.filter(({ name }) => names?.includes(name) ?? true);
  const there = all.map(({ name }) => name).join(', ');
  throw new UsageError(`There is no limit "${unknown}" in ${path}; there are ${there}.`);
}

/** Which key of which limits a command is about. `-` is read from standard input, which no list of processes shows. */
export async function targetOf(
  action: string,
  positionals: readonly string[],
  values: TargetValues,
): Promise<Target> {
  const [typed, ...more] = positionals;
  if (typed === undefined || typed === '' || more.length > 0) {
    throw new UsageError(
      `keys ${action} needs one key, such as tollgate keys ${action} 192.0.2.7.`,
    );
  }
  const limits = limitsOf(values);
  if (limits === undefined) {
    throw new UsageError(`keys ${action} needs --limits <file> or --limit <name>.`);
  }
  const text = typed === '-' ? readFileSync(0, 'utf8').trim() : typed;
  if (text === '') throw new UsageError('There is no key on standard input.');
  const key = await keyOf(text, values.as);
  const file = values.limits === undefined ? undefined : loadLimits(values.limits);
  const isRaw = values.as === undefined;
  const keys = Object.fromEntries(
    limits.map(({ name }) => [name, isRaw ? writtenAs(key, name, file) : key]),
  );
  const written = isRaw ? addressKey(key) : undefined;
  const notes =
    file === undefined && written !== undefined && written !== key
      ? [`${key} is taken as it is; clientIp() writes it as ${written}.`]
      : [];
  return { limits, keys, notes };
}

async function keyOf(text: string, kind: string | undefined): Promise<string> {
  if (kind === undefined) return text;
  const make = Object.hasOwn(KINDS, kind) ? KINDS[kind] : undefined;
  if (make === undefined) {
    const kinds = Object.keys(KINDS).join(', ');
    throw new UsageError(`--as: there is no kind of key "${kind}"; there are ${kinds}.`);
  }
  const request: HttpRequest = { method: 'GET', url: '/', headers: {} };
  const key = await make(text)(request);
  if (key === undefined) throw new UsageError(`--as ${kind}: this is no value of that kind.`);
  return key;
}

/** An address is written as `clientIp()` writes it where a limit is by address. */
function writtenAs(key: string, name: string, file: readonly FileLimit[] | undefined): string {
  const limit = file?.find((each) => each.name === name);
  return limit !== undefined && (limit.by ?? 'ip') === 'ip' ? (addressKey(key) ?? key) : key;
}

function withHeaders(key: KeyFunction, headers: HttpRequest['headers']): KeyFunction {
  return (request) => key({ ...request, headers });
}
