import { z } from 'zod';
import { show, TollgateConfigError } from './errors.ts';
import { Limiter } from './limiter.ts';
import { LIMIT_OPTIONS, type LimitOptions, refuseUnknown } from './limits.ts';
import { parsePolicy, type Policy, policyShape } from './policy.ts';

/** A value that the request carries, by its path: `headers.x-api-key`, `user.account`. */
export interface FieldKey {
  readonly field: string;
  /** True: the limit does not apply to a request without the field. Default false: its address is charged instead. */
  readonly optional?: boolean;
  /** Whether the value is hashed before it is a key. Default: when the field's name sounds like a credential. */
  readonly secret?: boolean;
}

/** Whose budget a limit of a file charges. */
export type FileKeyPart = 'ip' | 'route' | 'everyone' | FieldKey;

/** Which requests a limit of a file applies to: those that match all that is said. */
export interface FileMatch {
  /** `GET` means HEAD too. */
  readonly method?: string | readonly string[];
  /** The beginning of the path, by whole segments and in any case: `/api` means `/api/users`, not `/apiary`. */
  readonly path?: string | readonly string[];
}

/** A limit as a file holds it, with its policy in normal form. */
export interface FileLimit extends Pick<
  LimitOptions,
  'name' | 'cost' | 'mode' | 'whenStoreFails' | 'ban'
> {
  readonly policy: Policy;
  /** Default `"ip"`; several together give every combination a budget of its own. */
  readonly by?: FileKeyPart | readonly FileKeyPart[];
  readonly match?: FileMatch;
}

const oneOrMore = (one: z.ZodString, error: string): z.ZodType =>
  z.union([one, z.array(one).min(1, { error })], { error });

const KEYS =
  'expected "ip", "route", "everyone", { "field": "headers.x-api-key" } or an array of these';
const METHODS = 'expected a method such as "POST", or several';
const PATHS = 'expected the beginning of a path such as "/api", or several';

const keyPart = z.union([
  z.enum(['ip', 'route', 'everyone']),
  z.strictObject({
    field: z.string().min(1).describe('A path into the request, such as headers.x-api-key'),
    optional: z.boolean().optional(),
    secret: z.boolean().optional(),
  }),
]);

const duration = z.union([z.number(), z.string()], { error: 'expected a duration such as "10m"' });

const limitShape = z.strictObject({
  name: z
    .string()
    .regex(/^[A-Za-z][A-Za-z0-9_-]{0,63}$/, {
      error: 'expected a letter and up to 63 letters, digits, "_" or "-"',
    })
    .describe('The namespace of its keys in the store; unique whatever the case'),
  policy: policyShape,
  by: z
    .union([keyPart, z.array(keyPart).min(1, { error: KEYS })], { error: KEYS })
    .optional()
    .describe('Whose budget is charged; default "ip"'),
  cost: z
    .int({ error: 'expected a whole number' })
    .min(0, { error: 'expected a number of 0 or more' })
    .optional()
    .describe('Units a request costs; default 1'),
  match: z
    .strictObject({
      method: oneOrMore(z.string().min(1, { error: METHODS }), METHODS).optional(),
      path: oneOrMore(z.string().startsWith('/', { error: PATHS }), PATHS).optional(),
    })
    .optional()
    .describe('Which requests it applies to; default all'),
  mode: z
    .enum(['enforce', 'shadow'], { error: 'expected "enforce" or "shadow"' })
    .optional()
    .describe('"shadow" reports and never refuses; default "enforce"'),
  whenStoreFails: z
    .union(
      [
        z.enum(['local', 'allow', 'deny']),
        z.strictObject({ local: z.strictObject({ share: z.number().gt(0).max(1) }) }),
      ],
      { error: 'expected "local", "allow", "deny" or { "local": { "share": 0.1 } }' },
    )
    .optional()
    .describe('What the limit does without its store; default "local"'),
  ban: z
    .strictObject({
      after: z.int({ error: 'expected a whole number' }).min(1),
      within: duration,
      for: duration,
      growth: z.number().min(1).max(1_000).optional(),
      max: duration.optional(),
    })
    .optional()
    .describe('Bans keys that are refused again and again; default never'),
});

const fileShape = z.strictObject({
  $schema: z.string().optional(),
  limits: z
    .array(limitShape, { error: 'expected an array of limits' })
    .min(1, 'there are none, so nothing would be limited; add one'),
});

const FILE_OPTIONS: readonly string[] = Object.keys(fileShape.shape);
const FILE_LIMIT_OPTIONS: readonly string[] = Object.keys(limitShape.shape);

/** The form of a limits file as JSON Schema (draft 2020-12): what `parseLimits` validates by. */
export function limitsSchema(): Record<string, unknown> {
  return {
    ...z.toJSONSchema(fileShape, { io: 'input' }),
    title: 'Limits of Tollgate',
  };
}

/**
 * Reads the text of a limits file: JSON of the form `{ "limits": [{ "name", "policy", "by", "cost", "match", … }] }`.
 *
 * @throws TollgateConfigError with the place of the mistake and the mend.
 */
export function parseLimits(text: string): readonly FileLimit[] {
  const input = parseJson(text);
  if (typeof input !== 'object' || input === null || Array.isArray(input)) {
    throw new TollgateConfigError('', `expected { "limits": [ … ] }, got ${show(input)}`);
  }
  refuseUnknown(input, FILE_OPTIONS, '');
  const { limits } = input as { limits?: unknown };
  // Policies and unknown options first, since those who check them know the names of other libraries.
  if (Array.isArray(limits)) for (const [i, limit] of limits.entries()) look(limit, `limits[${i}]`);
  const result = fileShape.safeParse(input);
  if (!result.success) throw mistake(result.error, input);
  const read = result.data.limits.map((limit, i) => ({
    ...limit,
    policy: parsePolicy(limit.policy, `limits[${i}].policy`),
  })) as FileLimit[];
  // Whoever uses the limits finds no mistake that was not found here: names that are taken, costs above the quota.
  void new Limiter({ limits: limiterLimits(read) }).close();
  return Object.freeze(read.map((limit) => Object.freeze(limit)));
}

/** The limits of a file for `createLimiter`, which is given keys and does not look for them. */
export function limiterLimits(limits: readonly FileLimit[]): LimitOptions[] {
  return limits.map((limit) => {
    const { name, policy, cost, mode, whenStoreFails, ban } = limit;
    const options = { name, policy, cost, mode, whenStoreFails, ban };
    return Object.fromEntries(
      LIMIT_OPTIONS.filter((option) => options[option as keyof typeof options] !== undefined).map(
        (option) => [option, options[option as keyof typeof options]],
      ),
    ) as unknown as LimitOptions;
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text.startsWith('\uFEFF') ? text.slice(1) : text);
  } catch (error) {
    const message = (error as SyntaxError).message.replaceAll(/\s+/g, ' ');
    const position = /position (\d+)/.exec(message)?.[1];
    const line = text.slice(0, Number(position)).split('\n').length;
    throw new TollgateConfigError(
      '',
      `is no JSON: ${position === undefined ? '' : `line ${line}: `}${message}`,
    );
  }
}

function look(limit: unknown, path: string): void {
  if (typeof limit !== 'object' || limit === null) return;
  refuseUnknown(limit, FILE_LIMIT_OPTIONS, path);
  parsePolicy((limit as { policy?: unknown }).policy, `${path}.policy`);
}

function mistake(error: z.ZodError, input: unknown): TollgateConfigError {
  const issue = error.issues[0];
  if (issue === undefined) throw error;
  let value = input;
  let path = '';
  for (const key of issue.path) {
    value = (value as Record<PropertyKey, unknown> | undefined)?.[key];
    path += typeof key === 'number' ? `[${key}]` : `${path === '' ? '' : '.'}${String(key)}`;
  }
  if (issue.code === 'unrecognized_keys') {
    const there = path.endsWith('.match') ? '; there are method, path' : '';
    return new TollgateConfigError(`${path}.${issue.keys[0]}`, `unknown option${there}`);
  }
  return new TollgateConfigError(
    path,
    value === undefined ? `missing; ${issue.message}` : `${issue.message}, got ${show(value)}`,
  );
}
