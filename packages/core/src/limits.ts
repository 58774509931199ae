import type { Rule } from './algorithm.ts';
import { ConcurrencyRule } from './algorithms/concurrency.ts';
import { ruleOf } from './algorithms/index.ts';
import { type BanOptions, BanRule } from './ban.ts';
import { type Book, BookedCharge, checkCost, type Ledger, type WhenStoreFails } from './booking.ts';
import { show, TollgateArgumentError, TollgateConfigError } from './errors.ts';
import { canonicalKey } from './key.ts';
import { type LeaseOptions, Leasing } from './lease.ts';
import { parsePolicy, type Policy, type PolicyInput, unknownOption } from './policy.ts';

/** A named rule: a policy, what a request costs, and how it behaves. */
export interface LimitOptions {
  /** `[A-Za-z][A-Za-z0-9_-]{0,63}`, unique whatever the case: the namespace of its keys in the store. */
  readonly name: string;
  /** May be left out when every call brings one in `policies`. */
  readonly policy?: PolicyInput;
  /** Units a request costs; a whole number of 0 or more. */
  readonly cost?: number;
  /** Default `"local"`. */
  readonly whenStoreFails?: WhenStoreFails;
  /** `"shadow"` reports and never refuses; default `"enforce"`. */
  readonly mode?: 'enforce' | 'shadow';
  /** Bans keys that are refused again and again; default never. */
  readonly ban?: BanOptions;
  /**
   * Takes units ahead of time, and decides on the key without asking Redis while they last; default never. Of
   * token-bucket, fixed-window and sliding-window policies.
   */
  readonly lease?: LeaseOptions;
}

/** Limit name to key. A limit whose key is undefined or missing does not apply. */
export type Keys = Readonly<Record<string, string | undefined>>;

/** One number for all limits that have no cost of their own, or a cost by limit name. */
export type Cost = number | Readonly<Record<string, number>>;

export interface CallOptions {
  /** Default 1. A number never applies to concurrency limits, which take one slot. */
  readonly cost?: Cost;
  /** One of the limiter's priorities; default `"normal"` where that is one, else the lowest. */
  readonly priority?: string;
  /** A policy by limit name for this call, such as the caller's plan. */
  readonly policies?: Readonly<Record<string, PolicyInput>>;
}

/** A limit made ready. */
export interface Limit extends Book {
  readonly cost: number | undefined;
  /** The rule of the fixed policy, by priority; undefined when every call brings a policy. */
  rules: Rules | undefined;
}

/** A policy's rule for each priority; one and the same where priorities make no difference. */
interface Rules {
  readonly policy: Policy;
  readonly byPriority: ReadonlyMap<string, Rule>;
  /** Of the default priority. */
  readonly rule: Rule;
}

export const DEFAULT_PRIORITIES: readonly string[] = ['critical', 'normal', 'sheddable'];
/** Limits that one decision may charge. */
export const MOST_LIMITS = 16;
const NAME = /^[A-Za-z][A-Za-z0-9_-]{0,63}$/;
export const LIMIT_OPTIONS = [
  'name',
  'policy',
  'cost',
  'whenStoreFails',
  'mode',
  'ban',
  'lease',
] as const;
const CALL_OPTIONS: ReadonlySet<string> = new Set(['cost', 'priority', 'policies']);
const FOREIGN_OPTIONS: Readonly<Record<string, readonly string[]>> = {
  max: ['policy'],
  limit: ['policy'],
  points: ['policy'],
  windowMs: ['policy'],
  timeWindow: ['policy'],
  window: ['policy'],
  duration: ['policy'],
  keyGenerator: ['by'],
  key: ['by'],
  keyPrefix: ['name'],
  id: ['name'],
  weight: ['cost'],
  skipOnError: ['whenStoreFails'],
  passOnStoreError: ['whenStoreFails'],
  dryRun: ['mode'],
  whitelist: ['allowList'],
  blacklist: ['denyList'],
};

/** Throws for the first option that is not known, naming ours where another library's was meant. */
export function refuseUnknown(value: object, known: readonly string[], path: string): void {
  for (const option of Object.keys(value)) {
    if (!known.includes(option)) {
      throw new TollgateConfigError(
        path === '' ? option : `${path}.${option}`,
        unknownOption(option, known, FOREIGN_OPTIONS),
      );
    }
  }
}

function parseWhenStoreFails(value: unknown, path: string): WhenStoreFails {
  if (value === undefined) return 'local';
  if (value === 'local' || value === 'allow' || value === 'deny') return value;
  const share = (value as { local?: { share?: unknown } } | null)?.local?.share;
  if (typeof share === 'number' && share > 0 && share <= 1) {
    const { local } = value as { local: object };
    refuseUnknown(value as object, ['local'], path);
    refuseUnknown(local, ['share'], `${path}.local`);
    return { local: { share } };
  }
  throw new TollgateConfigError(
    path,
    `expected "local", "allow", "deny" or { local: { share } } with a share above 0 and up to 1, got ${show(value)}`,
  );
}

/** The limits of a limiter, made ready, and the charges that calls make under them. */
export class Limits {
  readonly all: Limit[] = [];
  /** Whether any policy so far holds slots. */
  holdSlots = false;
  /** Whether units of any limit so far are taken ahead of time. */
  leased = false;
  /** Whether any limit so far is in shadow mode. */
  hasShadows = false;
  /** The limit there is; undefined where there are none or several. */
  private only: Limit | undefined;
  private readonly byName = new Map<string, Limit>();
  private readonly ledger: Ledger;
  /** The highest first. */
  readonly priorities: readonly string[];
  readonly defaultPriority: string;
  /** Rules of policies that calls bring, as long as somebody holds the policy. */
  private readonly brought = new WeakMap<object, Rules>();

  constructor(priorities: readonly string[], ledger: Ledger) {
    this.ledger = ledger;
    this.priorities = parsePriorities(priorities);
    this.defaultPriority = priorities.includes('normal')
      ? 'normal'
      : (priorities[priorities.length - 1] as string);
  }

  /** Adds a limit after those there are. */
  add(options: LimitOptions, path: string): Limit {
    const limit = this.parse(options, path);
    const lower = limit.name.toLowerCase();
    const other = this.all.find(({ name }) => name.toLowerCase() === lower);
    if (other !== undefined) {
      throw new TollgateConfigError(
        `${path}.name`,
        `${show(limit.name)} is taken by ${show(other.name)}; names must differ in more than case`,
      );
    }
    this.all.push(limit);
    this.only = this.all.length === 1 ? limit : undefined;
    this.byName.set(limit.name, limit);
    if (limit.shadow) this.hasShadows = true;
    return limit;
  }

  get names(): readonly string[] {
    return this.all.map(({ name }) => name);
  }

  get(name: string): Limit {
    const limit = this.byName.get(name);
    if (limit === undefined) {
      throw new TollgateArgumentError(
        `There is no limit ${show(name)}; there are ${[...this.byName.keys()].join(', ')}.`,
      );
    }
    return limit;
  }

  /** The charges of a call, in the limits' order. */
  charges(keys: Keys, options: CallOptions | undefined): BookedCharge[] {
    const only = options === undefined ? this.onlyCharge(keys) : undefined;
    return only === undefined ? this.anyCharges(keys, options) : [only];
  }

  /** Those of any call, a mistaken one included. */
  private anyCharges(keys: Keys, options: CallOptions | undefined): BookedCharge[] {
    this.checkNames(keys);
    if (options !== undefined) this.checkOptions(options);
    const charges: BookedCharge[] = [];
    for (const limit of this.all) {
      const key = Object.hasOwn(keys, limit.name) ? keys[limit.name] : undefined;
      if (key !== undefined) charges.push(this.charge(limit, key, options));
    }
    if (charges.length > MOST_LIMITS) {
      throw new TollgateArgumentError(
        `A decision charges at most ${MOST_LIMITS} limits, got keys for ${charges.length}.`,
      );
    }
    return charges;
  }

  /** The charge of the commonest call: of the only limit, its key alone. Undefined for any other, and for a mistake. */
  private onlyCharge(keys: Keys): BookedCharge | undefined {
    const { only } = this;
    if (only === undefined || typeof keys !== 'object') return undefined;
    let key: string | undefined;
    for (const name in keys) {
      // In this loop V8 knows the answer, which it does not for Object.hasOwn().
      if (!Object.prototype.hasOwnProperty.call(keys, name)) continue;
      if (name !== only.name) return undefined;
      key = keys[name];
    }
    return key === undefined ? undefined : this.plainCharge(only, key);
  }

  /** One limit's charge of a call. */
  charge(limit: Limit, key: unknown, options: CallOptions | undefined): BookedCharge {
    if (options === undefined) return this.plainCharge(limit, key);
    const { cost, priority, policies } = options;
    const rules = this.rulesFor(limit, policies);
    const rule = priority === undefined ? rules.rule : this.byPriority(rules, priority);
    const named =
      typeof cost === 'object' && Object.hasOwn(cost, limit.name) ? cost[limit.name] : undefined;
    const own = named === undefined ? limit.cost : named;
    const units = rule.holdsSlots
      ? slotCost(own, limit.name)
      : checkCost(own ?? (typeof cost === 'number' ? cost : 1), limit.name);
    return new BookedCharge(limit, canonicalKey(key, limit.name), rule, units, own !== undefined);
  }

  private plainCharge(limit: Limit, key: unknown): BookedCharge {
    const { rule } = limit.rules ?? this.rulesFor(limit, undefined);
    const { cost } = limit;
    const units = cost ?? 1;
    return new BookedCharge(limit, canonicalKey(key, limit.name), rule, units, cost !== undefined);
  }

  private byPriority(rules: Rules, priority: string): Rule {
    this.checkPriority(priority);
    return rules.byPriority.get(priority) ?? rules.rule;
  }

  private checkPriority(priority: string): void {
    if (this.priorities.includes(priority)) return;
    throw new TollgateArgumentError(
      `There is no priority ${show(priority)}; there are ${this.priorities.join(', ')}.`,
    );
  }

  /** The names and keys of a call, in the limits' order. */
  keysOf(keys: Keys): { name: string; key: string }[] {
    this.checkNames(keys);
    return this.all.flatMap(({ name }) => {
      const key = Object.hasOwn(keys, name) ? keys[name] : undefined;
      return key === undefined ? [] : [{ name, key: canonicalKey(key, name) }];
    });
  }

  /** Replaces a limit's fixed policy; returns the new one. */
  update(name: string, input: PolicyInput): Policy {
    const limit = this.get(name);
    const policy = parsePolicy(input, 'policy');
    this.checkFixedCost(limit.cost, policy, 'policy');
    const rules = this.prepare(policy, 'policy');
    checkLease(limit, rules, 'policy');
    limit.rules = rules;
    return policy;
  }

  private parse(input: LimitOptions, path: string): Limit {
    if (typeof input !== 'object' || input === null) {
      throw new TollgateConfigError(path, `expected a limit, got ${show(input)}`);
    }
    refuseUnknown(input, LIMIT_OPTIONS, path);
    const { name, cost, mode = 'enforce' } = input;
    if (typeof name !== 'string' || !NAME.test(name)) {
      throw new TollgateConfigError(
        `${path}.name`,
        `expected a letter and up to 63 letters, digits, "_" or "-", got ${show(name)}`,
      );
    }
    if (mode !== 'enforce' && mode !== 'shadow') {
      throw new TollgateConfigError(
        `${path}.mode`,
        `expected "enforce" or "shadow", got ${show(mode)}`,
      );
    }
    if (cost !== undefined && !(Number.isSafeInteger(cost) && cost >= 0)) {
      throw new TollgateConfigError(
        `${path}.cost`,
        `expected a whole number of 0 or more, got ${show(cost)}`,
      );
    }
    const policy =
      input.policy === undefined ? undefined : parsePolicy(input.policy, `${path}.policy`);
    if (policy !== undefined) this.checkFixedCost(cost, policy, `${path}.cost`);
    const limit: Limit = {
      name,
      cost,
      shadow: mode === 'shadow',
      ledger: this.ledger,
      whenStoreFails: parseWhenStoreFails(input.whenStoreFails, `${path}.whenStoreFails`),
      ban: this.parseBan(input.ban, `${path}.ban`),
      lease: this.parseLease(input, `${path}.lease`),
      policyPath: `policies.${name}`,
      rules: policy && this.prepare(policy, `${path}.policy`),
    };
    if (limit.rules !== undefined) checkLease(limit, limit.rules, `${path}.lease`);
    return limit;
  }

  private parseLease({ lease, ban }: LimitOptions, path: string): Leasing | undefined {
    if (lease === undefined) return undefined;
    const leasing = new Leasing(lease, path);
    this.leased = true;
    if (this.ledger.store.returnLeases === undefined) {
      throw new TollgateConfigError(
        path,
        'the store knows no leases, which are for a store that processes share, such as redisStore(); leave lease out',
      );
    }
    if (ban === undefined) return leasing;
    throw new TollgateConfigError(
      path,
      'a limit that bans has every refusal counted by the store; leave lease or ban out',
    );
  }

  private parseBan(ban: BanOptions | undefined, path: string): BanRule | undefined {
    if (ban === undefined) return undefined;
    if (this.ledger.store.ban !== undefined) return new BanRule(ban, path);
    throw new TollgateConfigError(path, 'the store knows no bans; it has no ban()');
  }

  private checkFixedCost(cost: number | undefined, policy: Policy, path: string): void {
    if (cost === undefined) return;
    if (policy.algorithm === 'concurrency' && cost > 1) {
      throw new TollgateConfigError(path, 'a concurrency limit takes one slot; leave the cost out');
    }
    const quota = 'capacity' in policy ? policy.capacity : policy.limit;
    if (quota !== 0 && cost > quota) {
      throw new TollgateConfigError(
        path,
        `a cost of ${cost} can never be admitted by a quota of ${quota}; lower the cost or raise the quota`,
      );
    }
  }

  private prepare(policy: Policy, path: string): Rules {
    const byPriority = new Map<string, Rule>();
    if (policy.algorithm === 'concurrency' && policy.reserved !== undefined) {
      for (const priority of Object.keys(policy.reserved)) {
        if (!this.priorities.includes(priority)) {
          throw new TollgateConfigError(
            `${path}.reserved.${priority}`,
            `there is no such priority; there are ${this.priorities.join(', ')}`,
          );
        }
      }
      let kept = 0;
      for (const priority of this.priorities) {
        byPriority.set(priority, new ConcurrencyRule(policy, kept));
        const share = Object.hasOwn(policy.reserved, priority)
          ? (policy.reserved[priority] ?? 0)
          : 0;
        // Less a hair, so that 0.07 of 100, which is 7.000000000000001, is 7.
        kept += Math.ceil(share * policy.limit - 1e-9);
      }
    }
    if (policy.algorithm === 'concurrency') this.holdSlots = true;
    return { policy, byPriority, rule: byPriority.get(this.defaultPriority) ?? ruleOf(policy) };
  }

  private rulesFor(limit: Limit, policies: CallOptions['policies']): Rules {
    const input =
      policies !== undefined && Object.hasOwn(policies, limit.name)
        ? policies[limit.name]
        : undefined;
    if (input !== undefined) return this.rulesOf(input, limit.name);
    if (limit.rules === undefined) {
      throw new TollgateArgumentError(
        `The limit ${limit.name} has no fixed policy; bring one in policies: { ${limit.name}: … }.`,
      );
    }
    return limit.rules;
  }

  private rulesOf(input: PolicyInput, name: string): Rules {
    const known = this.brought.get(input);
    if (known !== undefined) return known;
    const policy = parsePolicy(input, `policies.${name}`);
    const rules = this.brought.get(policy) ?? this.prepare(policy, `policies.${name}`);
    this.brought.set(policy, rules);
    return rules;
  }

  private checkNames(keys: Keys): void {
    if (typeof keys !== 'object' || keys === null) {
      throw new TollgateArgumentError(
        `The keys must be an object from limit name to key, got ${show(keys)}.`,
      );
    }
    let named = false;
    for (const name in keys) {
      if (!Object.hasOwn(keys, name)) continue;
      named = true;
      if (!this.byName.has(name)) this.get(name);
    }
    if (named || Object.prototype.toString.call(keys) === '[object Object]') return;
    // Not even a Map or a promise has names of its own, so that no limit would apply.
    throw new TollgateArgumentError(
      `The names of limits must be those of a plain object's members, got ${Object.prototype.toString.call(keys)}; write Object.fromEntries(map) for a Map, and await a promise.`,
    );
  }

  private checkOptions(options: CallOptions): void {
    if (typeof options !== 'object' || options === null) {
      throw new TollgateArgumentError(
        `The options must be an object such as { cost: 1 }, got ${show(options)}.`,
      );
    }
    const { cost, priority, policies, ...rest } = options;
    for (const option of Object.keys(rest)) {
      if (!CALL_OPTIONS.has(option)) {
        throw new TollgateArgumentError(
          `There is no option ${show(option)}; there are ${[...CALL_OPTIONS].join(', ')}.`,
        );
      }
    }
    if (priority !== undefined) this.checkPriority(priority);
    if (typeof cost === 'object' && cost !== null) {
      this.checkNames(cost as unknown as Keys);
      for (const [name, units] of Object.entries(cost)) {
        if (units !== undefined) checkCost(units, name);
      }
    } else if (cost !== undefined) checkCost(cost, 'options');
    if (policies !== undefined) this.checkNames(policies as unknown as Keys);
  }
}

function checkLease({ lease, cost }: Limit, { rule }: Rules, path: string): void {
  const quota = lease?.of(rule, path).rule.quota ?? Infinity;
  if (cost === undefined || quota === 0 || cost <= quota) return;
  throw new TollgateConfigError(
    path,
    `a cost of ${cost} can never be admitted by the ${quota} units that leases leave of the capacity; lower the cost or syncMs, or raise the capacity`,
  );
}

function parsePriorities(priorities: readonly string[]): readonly string[] {
  if (
    Array.isArray(priorities) &&
    priorities.length > 0 &&
    priorities.every((priority) => typeof priority === 'string' && priority !== '') &&
    new Set(priorities).size === priorities.length
  ) {
    return priorities;
  }
  throw new TollgateConfigError(
    'priorities',
    `expected different names, highest first, got ${show(priorities)}`,
  );
}

function slotCost(cost: number | undefined, name: string): number {
  if (cost === undefined || cost === 0 || cost === 1) return cost ?? 1;
  throw new TollgateArgumentError(
    `The concurrency limit ${name} takes one slot; its cost is 1 (or 0 to take none), got ${show(cost)}.`,
  );
}
