import type { Family, Fields, ServerLimit } from './fields.ts';
import { type Bare, type Item, parseDictionary, parseList } from './structured.ts';

interface Found {
  readonly family: Family;
  readonly limits: readonly ServerLimit[];
}

interface QuotaPolicy {
  readonly limit: number;
  readonly windowMs: number | undefined;
  readonly unit: string;
}

/** `RateLimit: "name";r=50;t=30` of the drafts from -08 on, with `RateLimit-Policy` beside it. */
export function readList(fields: Fields): Found | undefined {
  // Atlassian tries it out under a name of its own, in which the remaining units may be left out.
  return readNamed(fields, '') ?? readNamed(fields, 'beta-');
}

function readNamed(fields: Fields, prefix: string): Found | undefined {
  const field = `${prefix}ratelimit`;
  const text = fields.get(field);
  if (text === undefined) return undefined;
  // It says how the budget stood when the answer was made, which a cache has kept since.
  if (Number(fields.get('age') ?? 0) > 0) return fields.ignore(field);
  const items = parseList(text);
  // Another draft's form, which is read next.
  if (items === undefined && parseDictionary(text) !== undefined) return undefined;
  if (items === undefined || items.length === 0) return fields.ignore(field);
  if (items.some(isOfDictionary)) return fields.ignore(field);
  const policies = readPolicies(fields, prefix);
  const limits = new Map<string, ServerLimit>();
  let family: Family = 'draft-8+';
  for (const item of items) {
    const name = nameOf(item);
    const state = stateOf(item, prefix !== '');
    if (name === undefined || state === undefined) {
      fields.ignore(`${field}:${name ?? '?'}`);
      continue;
    }
    if (state.family !== undefined) family = state.family;
    const { remaining, resetMs, partition } = state;
    const policy = policies.get(name.toLowerCase());
    const { limit, windowMs, unit = 'requests' } = policy ?? {};
    const key = `${name.toLowerCase()}\n${partition ?? ''}`;
    const known = limits.get(key);
    // Two of one name: the stricter one is the safe one.
    if (known?.remaining !== undefined && known.remaining <= (remaining ?? Infinity)) continue;
    limits.set(key, { name, limit, remaining, resetMs, windowMs, unit, partition });
  }
  return limits.size === 0 ? undefined : { family, limits: [...limits.values()] };
}

/** Whether a member is of the dictionary of -07, written with the wrong separator: `limit=100; remaining=0`. */
function isOfDictionary({ parameters }: Item): boolean {
  return parameters.has('remaining') && parameters.has('reset');
}

function nameOf({ bare }: Item): string | undefined {
  return bare?.type === 'string' || bare?.type === 'token' ? String(bare.value) : undefined;
}

interface State {
  /** Said where it is not the usual one. */
  readonly family: Family | undefined;
  readonly remaining: number | undefined;
  readonly resetMs: number | undefined;
  readonly partition: string | undefined;
}

function stateOf({ parameters }: Item, mayOmit: boolean): State | undefined {
  const pk = parameters.get('pk');
  if (pk !== undefined && pk.type !== 'bytes') return undefined;
  // What is to come after -11 calls them `a` and `w`.
  const next = !parameters.has('r') && parameters.has('a');
  const r = parameters.get(next ? 'a' : 'r');
  const t = parameters.get(next ? 'w' : 't');
  const remaining = count(r);
  const seconds = count(t);
  if (remaining === undefined && !(mayOmit && r === undefined)) return undefined;
  if (seconds === undefined && t !== undefined) return undefined;
  return {
    family: next ? 'draft-next' : undefined,
    remaining,
    resetMs: seconds === undefined ? undefined : seconds * 1_000,
    partition: pk === undefined ? undefined : String(pk.value),
  };
}

function readPolicies(fields: Fields, prefix: string): Map<string, QuotaPolicy> {
  const field = `${prefix}ratelimit-policy`;
  const policies = new Map<string, QuotaPolicy>();
  const text = fields.get(field);
  if (text === undefined) return policies;
  const items = parseList(text);
  if (items === undefined) fields.ignore(field);
  for (const item of items ?? []) {
    const name = nameOf(item);
    const limit = count(item.parameters.get('q'));
    // Whole numbers are policies of the older drafts, which have no name.
    if (name === undefined && item.bare?.type === 'integer') continue;
    if (name === undefined || limit === undefined) {
      fields.ignore(`${field}:${name ?? '?'}`);
      continue;
    }
    const qu = item.parameters.get('qu');
    const unit = qu?.type === 'string' ? String(qu.value) : 'requests';
    policies.set(name.toLowerCase(), {
      limit,
      windowMs: windowOf(item),
      // The draft's table of units spells it in the singular.
      unit: unit === 'request' ? 'requests' : unit,
    });
  }
  return policies;
}

/** `RateLimit: limit=100, remaining=50, reset=5` of draft -07. */
export function readDictionary(fields: Fields): Found | undefined {
  const text = fields.get('ratelimit');
  if (text === undefined || fields.ignored.includes('ratelimit')) return undefined;
  const members = parseDictionary(text);
  // A list, of which nothing could be used.
  if (members === undefined || parseList(text) !== undefined) return undefined;
  const limit = count(members.get('limit')?.bare);
  const seconds = count(members.get('reset')?.bare);
  const left = members.get('remaining')?.bare;
  const remaining = count(left);
  if (
    limit === undefined ||
    seconds === undefined ||
    (left !== undefined && remaining === undefined)
  ) {
    return fields.ignore('ratelimit');
  }
  const policy = parseList(fields.get('ratelimit-policy') ?? '')?.find(
    ({ bare }) => bare?.value === limit,
  );
  const windowMs = policy === undefined ? undefined : windowOf(policy);
  return {
    family: 'draft-7',
    limits: [
      {
        name: undefined,
        limit,
        remaining,
        resetMs: seconds * 1_000,
        windowMs,
        unit: 'requests',
        partition: undefined,
      },
    ],
  };
}

function windowOf({ parameters }: Item): number | undefined {
  const seconds = count(parameters.get('w')) ?? 0;
  return seconds > 0 ? seconds * 1_000 : undefined;
}

/** A whole number of 0 or more. */
function count(bare: Bare | undefined): number | undefined {
  return bare?.type === 'integer' && Number(bare.value) >= 0 ? Number(bare.value) : undefined;
}
