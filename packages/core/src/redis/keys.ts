import { createHash } from 'node:crypto';
import { fnv1a } from '../hash.ts';
import { show, TollgateArgumentError, TollgateConfigError } from '../errors.ts';
import type { Charge } from '../store.ts';

/** The layout of what is stored. Another layout starts fresh under keys of its own. */
const LAYOUT = '2';

const TAGS = {
  'token-bucket': 't',
  'leaky-bucket': 'l',
  'fixed-window': 'f',
  'sliding-window': 's',
  'sliding-log': 'g',
  concurrency: 'c',
  /** Of no algorithm: the key's bans, and those who hold leases of it. */
  ban: '!',
  holders: 'h',
} as const;

const ALL = Object.keys(TAGS) as (keyof typeof TAGS)[];

type Subject = Pick<Charge, 'name' | 'key'>;
type HashTag = (keys: Readonly<Record<string, string>>) => string | undefined;

/**
 * The name of a key in Redis: the prefix, the hash tag, the layout, the algorithm, the limit and its key. There always
 * is a tag, if an empty one, so that braces in users' keys mean nothing.
 */
export function redisKey(
  prefix: string,
  hashTag: string,
  kind: keyof typeof TAGS,
  { name, key }: Subject,
): string {
  return `${prefix}{${hashTag}}${LAYOUT}${TAGS[kind]}:${name}:${wellFormed(key)}`;
}

/** UTF-8 has no lone surrogates and would write them all alike, so keys that have any are hashed, as long ones are. */
function wellFormed(key: string): string {
  if (key.isWellFormed()) return key;
  return `sha256:${createHash('sha256').update(Buffer.from(key, 'utf16le')).digest('base64url')}`;
}

/** Names keys in Redis for a store, and remembers under which name a charge was made. */
export class KeyNames {
  private readonly prefix: string;
  private readonly hashTag: HashTag | undefined;
  /** Only with a hash tag: a charge alone does not say what its tag was made of. */
  private readonly booked = new WeakMap<Charge, string>();

  private readonly cluster: boolean;

  /** @param cluster whether all that is kept of a limit's key has to be in one slot. */
  constructor(prefix: string, hashTag: HashTag | undefined, cluster: boolean) {
    this.prefix = prefix;
    this.hashTag = hashTag;
    this.cluster = cluster;
  }

  /**
   * The keys of the charges of one call.
   *
   * @throws TollgateArgumentError when the call lacks keys that the hash tag is made of.
   * @throws TollgateConfigError when `hashTag` returns something else than a text.
   */
  of(charges: readonly Charge[]): string[] {
    const tag = this.tagOf(charges);
    const names = charges.map((charge) =>
      redisKey(this.prefix, tag ?? this.ownTag(charge), charge.rule.policy.algorithm, charge),
    );
    if (this.hashTag !== undefined) {
      for (const [index, charge] of charges.entries()) {
        this.booked.set(charge, names[index] as string);
      }
    }
    return names;
  }

  /** The keys under which charges were made, by whichever calls. Throws as `of` does for those made elsewhere. */
  whereMade(charges: readonly Charge[]): string[] {
    if (this.hashTag === undefined) return this.of(charges);
    const unknown = charges.filter((charge) => !this.booked.has(charge));
    if (unknown.length > 0) this.of(unknown);
    return charges.map((charge) => this.booked.get(charge) as string);
  }

  /** All keys, of whichever algorithm, that may hold what is known of these. Throws as `of` does. */
  ofAll(subjects: readonly Subject[]): string[] {
    const tag = this.tagOf(subjects);
    return subjects.flatMap((subject) =>
      ALL.map((kind) => redisKey(this.prefix, tag ?? this.ownTag(subject), kind, subject)),
    );
  }

  /** The keys of their bans. Throws as `of` does. */
  ofBans(subjects: readonly Subject[]): string[] {
    const tag = this.tagOf(subjects);
    return subjects.map((subject) =>
      redisKey(this.prefix, tag ?? this.ownTag(subject), 'ban', subject),
    );
  }

  /** The key of the bans of what `key` is the name of. */
  banOf(key: string): string {
    return this.near(key, TAGS.ban);
  }

  /** The key of those who hold leases of what `key` is the name of. */
  holdersOf(key: string): string {
    return this.near(key, TAGS.holders);
  }

  /** Whether a charge's key depends on the other charges of its call. */
  get isTagged(): boolean {
    return this.hashTag !== undefined;
  }

  private near(key: string, tag: string): string {
    const kind = key.indexOf('}', this.prefix.length) + 1 + LAYOUT.length;
    return `${key.slice(0, kind)}${tag}${key.slice(kind + 1)}`;
  }

  /**
   * Without a tag for all keys of a call each has its own, where that is of use. What is kept beside a limit's key,
   * under its name with a dot and more, is in its slot.
   */
  private ownTag({ name, key }: Subject): string {
    return this.cluster ? fnv1a(`${name.split('.', 1)[0]}:${key}`).toString(36) : '';
  }

  private tagOf(subjects: readonly Subject[]): string | undefined {
    if (this.hashTag === undefined) return undefined;
    const keys = Object.fromEntries(subjects.map(({ name, key }) => [name, key]));
    let tag: unknown;
    let problem: string | undefined;
    try {
      tag = this.hashTag(keys);
    } catch (error) {
      problem = `it threw ${String(error)}`;
    }
    if (typeof tag === 'string' && tag !== '' && !tellsOfNothing(tag, keys)) {
      if (!tag.includes('}')) return tag;
      throw new TollgateConfigError('hashTag', `expected a text without "}", got ${show(tag)}`);
    }
    const missing = missedBy(this.hashTag, keys);
    if (missing.length === 0) {
      problem ??= `expected it to return a text that is not empty, got ${show(tag)}`;
      throw new TollgateConfigError('hashTag', problem);
    }
    throw new TollgateArgumentError(
      `The store's hashTag is made of the key of ${missing.join(' and ')} too, which this call does not pass. Pass the same keys as when the request was charged.`,
    );
  }
}

/** Whether a text was made of a key that is not there: `${keys.tenant}` is "undefined" then. */
function tellsOfNothing(tag: string, keys: Readonly<Record<string, string>>): boolean {
  return tag.includes('undefined') && !Object.values(keys).some((key) => key.includes('undefined'));
}

/** The keys that a function reads and does not find. */
function missedBy(hashTag: HashTag, keys: Readonly<Record<string, string>>): string[] {
  const missed = new Set<string>();
  const watched = new Proxy(keys, {
    get: (target, name) => {
      if (typeof name === 'string' && !Object.hasOwn(target, name)) missed.add(name);
      return target[name as string];
    },
  });
  try {
    hashTag(watched);
  } catch {
    // It is asked only what it reads: what it says was heard already.
  }
  return [...missed];
}
