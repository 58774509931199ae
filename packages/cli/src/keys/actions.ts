import {
  createLimiter,
  type Decision,
  type Limiter,
  parseDuration,
  TollgateConfigError,
  type Verdict,
} from '@tollgate/core';
import type { RedisStore } from '@tollgate/core/redis';
import { parsed } from '../commands/options.ts';
import { confirm } from '../confirm.ts';
import { printable } from '../report/printable.ts';
import { count, duration } from '../report/words.ts';
import { UsageError } from '../usage.ts';
import { CHANGING, OF_A_KEY, type StoreValues } from './options.ts';
import { openStore } from './store.ts';
import { type Target, targetOf, type TargetValues } from './target.ts';

const BAN = { ...CHANGING, for: { type: 'string' } } as const;

/** `tollgate keys peek`: what the next request of a key would be told. */
export async function peekCommand(args: readonly string[]): Promise<string> {
  const { values, positionals } = parsed(args, OF_A_KEY);
  if (values.limits === undefined) {
    throw new UsageError('keys peek needs --limits <file>, for the policies.');
  }
  const target = await targetOf('peek', positionals, values);
  tellNotes(target);
  const decision = await withLimiter('peek', values, target, (limiter) =>
    limiter.peek(target.keys),
  );
  return values.json === true ? json(decision) : peekText(decision);
}

/** `tollgate keys reset`: forgets what a key owes, and its bans. */
export async function resetCommand(args: readonly string[]): Promise<string> {
  const { values, positionals } = parsed(args, CHANGING);
  const target = await targetOf('reset', positionals, values);
  return change('reset', values, target, {
    question: 'Forget what it owes, and its bans',
    run: (limiter) => limiter.reset(target.keys),
    done: 'forgotten',
    told: { reset: target.keys },
  });
}

/** `tollgate keys ban`: refuses a key for some time. */
export async function banCommand(args: readonly string[]): Promise<string> {
  const { values, positionals } = parsed(args, BAN);
  needsLimit('ban', values);
  if (values.for === undefined) throw new UsageError('keys ban needs --for <time>, such as 1h.');
  const forMs = timeOf(values.for);
  const target = await targetOf('ban', positionals, values);
  const length = duration(forMs);
  return change('ban', values, target, {
    question: `Refuse it for ${length}`,
    run: (limiter) => limiter.ban(target.keys, forMs),
    done: `banned for ${length}`,
    told: { ban: target.keys, forMs },
  });
}

/** `tollgate keys unban`: ends a key's bans. */
export async function unbanCommand(args: readonly string[]): Promise<string> {
  const { values, positionals } = parsed(args, CHANGING);
  needsLimit('unban', values);
  const target = await targetOf('unban', positionals, values);
  return change('unban', values, target, {
    question: 'End its ban',
    run: (limiter) => limiter.unban(target.keys),
    done: 'no longer banned',
    told: { unban: target.keys },
  });
}

/** A ban of all limits of a file is not what somebody means who forgets to name one. */
function needsLimit(action: string, { limit }: TargetValues): void {
  if (limit === undefined) throw new UsageError(`keys ${action} needs --limit <name>.`);
}

function timeOf(text: string): number {
  try {
    return parseDuration(text, '--for');
  } catch (error) {
    if (!(error instanceof TollgateConfigError)) throw error;
    throw new UsageError(`${error.message}.`);
  }
}

interface Change {
  readonly question: string;
  readonly run: (limiter: Limiter<RedisStore>) => Promise<void>;
  readonly done: string;
  /** As JSON. */
  readonly told: object;
}

async function change(
  action: string,
  values: StoreValues & { readonly json?: boolean | undefined; readonly yes?: boolean | undefined },
  target: Target,
  { question, run, done, told }: Change,
): Promise<string> {
  const lines = Object.entries(target.keys).map(([name, key = '']) => `${name}  ${printable(key)}`);
  tellNotes(target);
  if (values.yes !== true && !(await confirm(lines, question))) return 'Nothing was changed.\n';
  await withLimiter(action, values, target, run);
  return values.json === true ? json(told) : lines.map((line) => `${line}: ${done}\n`).join('');
}

function tellNotes({ notes }: Target): void {
  for (const note of notes) process.stderr.write(`tollgate: ${printable(note)}\n`);
}

async function withLimiter<T>(
  action: string,
  values: StoreValues,
  { limits }: Target,
  use: (limiter: Limiter<RedisStore>) => Promise<T>,
): Promise<T> {
  const { store, close } = await openStore(action, values);
  const errors: unknown[] = [];
  // A limit that answers without its store would tell an operator a tale.
  const limiter = createLimiter({
    store,
    limits: limits.map((limit) => ({ ...limit, whenStoreFails: 'deny' })),
    onStoreError: (error) => errors.push(error),
  });
  try {
    const answer = await use(limiter);
    if (errors.length > 0) throw errors[0];
    return answer;
  } finally {
    await limiter.close();
    close();
  }
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`;
}

function peekText({ verdicts }: Decision): string {
  return verdicts.map((verdict) => `${verdictText(verdict)}\n`).join('');
}

function verdictText(verdict: Verdict): string {
  const { name, key, remaining, limit, resetAfterMs } = verdict;
  const left = `${count(remaining)} of ${count(limit)} left, whole after ${time(resetAfterMs)}`;
  return `${name}  ${printable(key)}: ${left}; ${outcome(verdict)}`;
}

function outcome({ allowed, reason, retryAfterMs }: Verdict): string {
  if (allowed) return 'would be admitted';
  const why = reason === 'limited' ? '' : ` (${reason})`;
  return retryAfterMs === Infinity
    ? `would be refused${why}, however long it waits`
    : `would be refused${why}, retry after ${time(retryAfterMs)}`;
}

/** `1h 2m 3s`: seconds rounded up, as `Retry-After` is. */
function time(ms: number): string {
  if (ms === Infinity) return 'ever';
  let seconds = Math.ceil(ms / 1_000);
  if (seconds === 0) return '0s';
  const parts: string[] = [];
  for (const [size, unit] of [
    [86_400, 'd'],
    [3_600, 'h'],
    [60, 'm'],
    [1, 's'],
  ] as const) {
    const units = Math.floor(seconds / size);
    seconds -= units * size;
    if (units > 0) parts.push(`${units}${unit}`);
  }
  return parts.join(' ');
}
