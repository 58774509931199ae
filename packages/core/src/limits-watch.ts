import { readFileSync } from 'node:fs';
import { show, TollgateConfigError } from './errors.ts';
import type { Limiter } from './limiter.ts';
import { refuseUnknown } from './limits.ts';
import { type FileLimit, parseLimits } from './limits-file.ts';
import { consoleLogger, type Logger } from './logger.ts';
import type { Policy } from './policy.ts';

/** A limit whose policy a changed file replaced. */
export interface PolicyChange {
  readonly name: string;
  readonly from: Policy;
  readonly to: Policy;
}

export interface WatchOptions {
  /** How often the file is looked at, in milliseconds; default 1,000. */
  readonly intervalMs?: number;
  /** Told of policies replaced, after they were. Must not throw. */
  readonly onChange?: (changes: readonly PolicyChange[]) => void;
  /** Told why a changed file was not applied. Default: the logger is. Must not throw. */
  readonly onError?: (error: Error) => void;
  /** Default the console. */
  readonly logger?: Logger;
}

export interface LimitsWatch {
  /** The limits that hold now. */
  readonly limits: readonly FileLimit[];
  /** Reads the file at once. Returns whether its limits hold now. */
  reload(): boolean;
  /** Stops watching. May be called again. */
  close(): void;
}

/**
 * Reads a limits file.
 *
 * @throws TollgateConfigError when it cannot be read, or for a mistake in it.
 */
export function loadLimits(path: string): readonly FileLimit[] {
  return parse(path, readText(path));
}

/**
 * Watches a limits file and applies its policies to a limiter that was made of it: live, and what keys owe stays owed,
 * unless the algorithm is another. A file that is broken, or changes what only a start can (a name, `by`, `cost`,
 * `match`, `mode`, `whenStoreFails`, `ban`), changes nothing at all, and `onError` is told why. Watching keeps no process alive.
 *
 * The file is polled, which works wherever it lies: replaced by an editor, on a network, behind the symbolic links of a
 * mounted configuration.
 *
 * @throws TollgateConfigError for a wrong option.
 * @param limits what `loadLimits` read, and the limiter was made of.
 */
export function watchLimits(
  path: string,
  limits: readonly FileLimit[],
  limiter: Pick<Limiter, 'update'>,
  options: WatchOptions = {},
): LimitsWatch {
  refuseUnknown(options, ['intervalMs', 'onChange', 'onError', 'logger'], 'watchLimits');
  const { intervalMs = 1_000, onChange, logger = consoleLogger } = options;
  if (!(intervalMs > 0)) {
    throw new TollgateConfigError(
      'watchLimits.intervalMs',
      `expected milliseconds above 0, got ${show(intervalMs)}`,
    );
  }
  const onError =
    options.onError ??
    ((error: Error): void =>
      logger.error({ err: error, path }, 'the limits file was not applied; the limits stay'));
  let current = limits;
  /** What the file held when it was last looked at, or why it could not be read: each is told of once. */
  let seen: string | undefined;
  const reload = (): boolean => {
    seen = undefined;
    try {
      seen = readText(path);
      const next = parse(path, seen);
      const changes = changesOf(path, current, next);
      apply(limiter, changes);
      current = next;
      if (changes.length > 0) onChange?.(changes);
      return true;
    } catch (error) {
      seen ??= (error as Error).message;
      onError(error as Error);
      return false;
    }
  };
  const timer = setInterval(() => {
    if (seen !== glance(path)) reload();
  }, intervalMs).unref();
  return {
    get limits(): readonly FileLimit[] {
      return current;
    },
    reload,
    close: () => clearInterval(timer),
  };
}

function glance(path: string): string {
  try {
    return readText(path);
  } catch (error) {
    return (error as Error).message;
  }
}

function readText(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new TollgateConfigError('', `${path} cannot be read: ${(error as Error).message}`);
  }
}

function parse(path: string, text: string): readonly FileLimit[] {
  try {
    return parseLimits(text);
  } catch (error) {
    if (!(error instanceof TollgateConfigError)) throw error;
    throw new TollgateConfigError('', `${path}: ${error.message}`);
  }
}

/** What only the policies of a file change; throws for all else. */
function changesOf(
  path: string,
  current: readonly FileLimit[],
  next: readonly FileLimit[],
): PolicyChange[] {
  const refuse = (problem: string): never => {
    throw new TollgateConfigError('', `${path}: ${problem}; that takes a restart`);
  };
  for (const { name } of current) {
    if (!next.some((limit) => limit.name === name)) refuse(`the limit "${name}" is gone`);
  }
  return next.flatMap(({ policy: to, ...rest }) => {
    const known = current.find(({ name }) => name === rest.name);
    if (known === undefined) return refuse(`the limit "${rest.name}" is new`);
    const { policy: from, ...before } = known;
    if (text(before) !== text(rest)) refuse(`"${rest.name}" changed more than its policy`);
    return text(from) === text(to) ? [] : [{ name: rest.name, from, to }];
  });
}

/** A value as text, whatever the order in which an object's properties were written. */
function text(value: unknown): string {
  return JSON.stringify(value, (_, each: unknown) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  );
}

/** All or none. */
function apply(limiter: Pick<Limiter, 'update'>, changes: readonly PolicyChange[]): void {
  const done: PolicyChange[] = [];
  try {
    for (const change of changes) {
      limiter.update(change.name, change.to);
      done.push(change);
    }
  } catch (error) {
    for (const { name, from } of done) limiter.update(name, from);
    throw error;
  }
}
