import { banForgottenAfter, banned, type BanRule, type BanState, impose, rollBan } from '../ban.ts';
import type { Charge } from '../store.ts';

interface Entry {
  readonly state: BanState;
  /** By which refusals were counted; undefined where only an operator banned the key. */
  rule: BanRule | undefined;
}

type Place = Pick<Charge, 'name' | 'key'>;

/** Entries looked at when one is added, which is enough to forget faster than to learn. */
const LOOKS = 4;
/** Entries looked at for one to make room. */
const SAMPLE = 16;

/** Bans, and the refusals counted towards them, of a memory store: bounded, and forgotten without a timer. */
export class Bans {
  /** Those not looked at for longest come first. */
  private readonly entries = new Map<string, Entry>();
  private readonly most: number;

  constructor(most: number) {
    this.most = most;
  }

  /** Whether nothing is known of any key, so that nobody has to be asked for. */
  get isEmpty(): boolean {
    return this.entries.size === 0;
  }

  /** How long a key is still banned, in µs; 0 when it is not. Whether a clock's healing is kept is for `keep` to say. */
  left(place: Place, now: number, keep: boolean): number {
    const kept = this.entries.get(nameOf(place))?.state;
    if (kept === undefined) return 0;
    const state: BanState = keep ? kept : [...kept];
    rollBan(state, now);
    return banned(state, now);
  }

  /** Counts a refusal of a key that is not banned. */
  strike(place: Place, rule: BanRule, now: number): void {
    const entry = this.entryOf(place, now);
    entry.rule = rule;
    rule.strike(entry.state, now);
  }

  /** Bans a key for `length` µs from `now` on. */
  impose(place: Place, length: number, now: number): void {
    impose(this.entryOf(place, now).state, now, length);
  }

  /** Forgets a key's bans. */
  lift(place: Place): void {
    this.entries.delete(nameOf(place));
  }

  private entryOf(place: Place, now: number): Entry {
    const name = nameOf(place);
    const known = this.entries.get(name);
    if (known !== undefined) return known;
    this.sweep(now);
    if (this.entries.size >= this.most) this.makeRoom(now);
    const entry: Entry = { state: [0, 0, 0, 0, 0], rule: undefined };
    this.entries.set(name, entry);
    return entry;
  }

  private sweep(now: number): void {
    let looks = 0;
    for (const [name, entry] of this.entries) {
      if (looks++ === LOOKS) return;
      this.entries.delete(name);
      if (banForgottenAfter(entry.state, now, entry.rule) > 0) this.entries.set(name, entry);
    }
  }

  /** Forgets one that is not banned, unless a sample has no other. */
  private makeRoom(now: number): void {
    let victim: string | undefined;
    let looks = 0;
    for (const [name, { state }] of this.entries) {
      victim ??= name;
      if (banned(state, now) === 0) {
        victim = name;
        break;
      }
      if (++looks === SAMPLE) break;
    }
    if (victim !== undefined) this.entries.delete(victim);
  }
}

/** A limit's name has no line break, so no two places are named alike. */
function nameOf({ name, key }: Place): string {
  return `${name}\n${key}`;
}
