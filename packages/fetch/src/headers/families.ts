import { readDictionary, readList } from './draft-fields.ts';
import type { Family, Fields, ServerLimit } from './fields.ts';
import { parseList } from './structured.ts';
import { parseDecimal, parseReset } from './times.ts';

/** The limits that one kind of header fields says; undefined where there are no such fields, or none that can be used. */
type Reader = (fields: Fields) => { family: Family; limits: readonly ServerLimit[] } | undefined;

const READERS: readonly Reader[] = [
  readList,
  readDictionary,
  (fields) => readTriple(fields, 'draft-6', 'ratelimit'),
  (fields) => readTriple(fields, 'x-ratelimit', 'x-ratelimit'),
  (fields) => readTriple(fields, 'x-rate-limit', 'x-rate-limit'),
  (fields) => readDimensions(fields, 'x-ratelimit-*'),
  (fields) => readDimensions(fields, 'anthropic'),
  readShopify,
];

/** The limits of an answer, from the first kind of fields that says any. */
export function readFamily(fields: Fields): {
  family: Family | undefined;
  limits: readonly ServerLimit[];
} {
  for (const read of READERS) {
    const reading = read(fields);
    if (reading !== undefined) return reading;
  }
  return { family: undefined, limits: [] };
}

/** `…-Limit`, `…-Remaining` and `…-Reset`, of one limit. */
function readTriple(fields: Fields, family: Family, prefix: string): ReturnType<Reader> {
  const limitText = fields.get(`${prefix}-limit`);
  const remainingText = fields.get(`${prefix}-remaining`);
  if (limitText === undefined && remainingText === undefined) return undefined;
  const remaining = readCount(remainingText);
  if (remaining === undefined && remainingText !== undefined) {
    return fields.ignore(`${prefix}-remaining`);
  }
  const limit = limitText === undefined ? undefined : readCount(limitText);
  if (limitText !== undefined && limit === undefined) fields.ignore(`${prefix}-limit`);
  if (limit === undefined && remaining === undefined) return undefined;
  // Of Discord, beside a reset that is a moment; and the bucket's name.
  const after = fields.get(`${prefix}-reset-after`);
  const name =
    fields.get(`${prefix}-name`) ??
    fields.get(`${prefix}-bucket`) ??
    fields.get(`${prefix}-resource`);
  const windowMs =
    windowOf(limit, limitText) ?? windowOf(limit, fields.get(`${prefix}-policy`) ?? undefined);
  const resetMs =
    after === undefined
      ? readReset(fields, `${prefix}-reset`)
      : readReset(fields, `${prefix}-reset-after`);
  return {
    family,
    limits: [{ name, limit, remaining, resetMs, windowMs, unit: 'requests', partition: undefined }],
  };
}

/** The whole number that a field begins with: `100`, `598.0`, `100;w=10`, `10, 10;w=1`. */
function readCount(text: string | undefined): number | undefined {
  const number = parseDecimal(/^[^;,]*/.exec(text ?? '')?.[0].trim() ?? '');
  return number === undefined ? undefined : Math.floor(number);
}

/** The window of the policy in `text` whose quota is `limit`. */
function windowOf(limit: number | undefined, text: string | undefined): number | undefined {
  for (const { bare, parameters } of parseList(text ?? '') ?? []) {
    const w = parameters.get('w');
    if (bare?.value !== limit || w?.type !== 'integer' || !(Number(w.value) > 0)) continue;
    return Number(w.value) * 1_000;
  }
  return undefined;
}

function readReset(fields: Fields, name: string): number | undefined {
  const text = fields.get(name);
  return text === undefined ? undefined : (parseReset(text, fields.now) ?? fields.ignore(name));
}

const WINDOWS: Readonly<Record<string, number>> = {
  second: 1_000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  month: 30 * 86_400_000,
  year: 365 * 86_400_000,
};

/** Where the name of a limit stands in that of its fields. */
const DIMENSIONS = {
  'x-ratelimit-*': {
    form: /^x-ratelimit-remaining-(.+)$/,
    prefix: 'x-ratelimit',
    field: (dimension: string, measure: string) => `x-ratelimit-${measure}-${dimension}`,
  },
  anthropic: {
    form: /^anthropic-ratelimit-(.+)-remaining$/,
    prefix: 'anthropic-ratelimit',
    field: (dimension: string, measure: string) => `anthropic-ratelimit-${dimension}-${measure}`,
  },
} as const;

/** Several limits, each named in its fields: `x-ratelimit-remaining-tokens`, `X-RateLimit-Remaining-Minute`. */
function readDimensions(fields: Fields, family: keyof typeof DIMENSIONS): ReturnType<Reader> {
  const { form, prefix, field } = DIMENSIONS[family];
  const limits: ServerLimit[] = [];
  for (const header of fields.names()) {
    const dimension = form.exec(header)?.[1];
    if (dimension === undefined) continue;
    const remaining = readCount(fields.get(header));
    if (remaining === undefined) {
      fields.ignore(`${prefix}-${dimension}`);
      continue;
    }
    limits.push({
      name: dimension,
      limit: readCount(fields.get(field(dimension, 'limit'))),
      remaining,
      resetMs: readReset(fields, field(dimension, 'reset')),
      windowMs: Object.hasOwn(WINDOWS, dimension) ? WINDOWS[dimension] : undefined,
      unit: dimension.endsWith('tokens') ? 'tokens' : 'requests',
      partition: undefined,
    });
  }
  return limits.length === 0 ? undefined : { family, limits };
}

/** `32/40`: used, and how many there are. */
function readShopify(fields: Fields): ReturnType<Reader> {
  const header = 'x-shopify-shop-api-call-limit';
  const text = fields.get(header);
  if (text === undefined) return undefined;
  const [, used, size] = /^(\d+)\/(\d+)$/.exec(text) ?? [];
  if (size === undefined) return fields.ignore(header);
  const limit = Number(size);
  const remaining = Math.max(0, limit - Number(used));
  const unsaid = { resetMs: undefined, windowMs: undefined, partition: undefined };
  return {
    family: 'shopify',
    limits: [{ name: 'shopify', limit, remaining, unit: 'requests', ...unsaid }],
  };
}
