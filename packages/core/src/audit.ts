import { bans, type KeysEvent, resets, unbans, updates } from './events.ts';
import type { Limiter } from './limiter.ts';
import { isPromise, type MaybePromise } from './maybe-promise.ts';
import type { Policy } from './policy.ts';
import { shownKey } from './shown-key.ts';

/** A key of a limit. */
interface Line {
  readonly name: string;
  readonly key: string;
}

/** Tells of what operators do to a limiter, once it is done or has failed, if anybody listens. */
export class Audit {
  private readonly limiter: Limiter;
  private readonly logKeys: 'clear' | 'hash' | false;

  constructor(limiter: Limiter, logKeys: 'clear' | 'hash' | false) {
    this.limiter = limiter;
    this.logKeys = logKeys;
  }

  /** A key as events show it; undefined where they show none. */
  shown(key: string): string | undefined {
    return this.logKeys === false ? undefined : shownKey(key, this.logKeys);
  }

  reset(done: MaybePromise<void>, lines: readonly Line[]): MaybePromise<void> {
    if (!resets.hasSubscribers) return done;
    return this.tell(done, lines, (event) => resets.publish(event));
  }

  ban(done: MaybePromise<void>, lines: readonly Line[], forMs: number): MaybePromise<void> {
    if (!bans.hasSubscribers) return done;
    return this.tell(done, lines, (event) => bans.publish({ ...event, forMs }));
  }

  unban(done: MaybePromise<void>, lines: readonly Line[]): MaybePromise<void> {
    if (!unbans.hasSubscribers) return done;
    return this.tell(done, lines, (event) => unbans.publish(event));
  }

  update(limit: string, policy: Policy, before: Policy | undefined): void {
    if (updates.hasSubscribers) updates.publish({ limiter: this.limiter, limit, policy, before });
  }

  private tell(
    done: MaybePromise<void>,
    lines: readonly Line[],
    publish: (event: KeysEvent) => void,
  ): MaybePromise<void> {
    const { limiter } = this;
    const limits = lines.map(({ name }) => name);
    const keys =
      this.logKeys === false
        ? undefined
        : Object.fromEntries(lines.map(({ name, key }) => [name, this.shown(key) ?? '']));
    const tell = (error?: unknown): void => publish({ limiter, limits, keys, error });
    if (!isPromise(done)) {
      tell();
      return undefined;
    }
    return done.then(
      () => tell(),
      (error: unknown) => {
        tell(error);
        throw error;
      },
    );
  }
}
