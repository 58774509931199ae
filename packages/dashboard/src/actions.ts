import type { Keys, Limiter, Policy, Verdict } from '@tollgate/core';
import type { Operator } from './access.ts';
import { type Answer, json, problem } from './answer.ts';
import type { AuditEvent } from './audit.ts';
import { type PolicyState, policyState, safeMessage } from './state.ts';
import type { Watched } from './watched.ts';

/** What an operator may ask for. `peek` changes nothing; it is posted so that keys stay out of addresses and logs. */
export const ACTIONS = ['peek', 'reset', 'ban', 'unban'] as const;
export type Action = (typeof ACTIONS)[number];

const LONGEST_BAN_MS = 400 * 86_400_000;
/** As a list of refused keys shows one that is too long for it. */
const CUT = '…';

/** How a key stands. Units are costs, durations milliseconds; a wait for ever is null. */
interface Standing extends Pick<
  Verdict,
  'allowed' | 'shadow' | 'reason' | 'source' | 'cost' | 'limit' | 'remaining'
> {
  readonly policy: PolicyState;
  readonly nextAfterMs: number | null;
  readonly resetAfterMs: number | null;
  readonly retryAfterMs: number | null;
}

interface Asked {
  readonly limit: string;
  readonly key: string;
  /** Undefined where the limit has its own, or nobody knows which. */
  readonly policy: Policy | undefined;
  /** Whether requests bring the limit's policy. */
  readonly varies: boolean;
}

/** Does what a request's body asks for, and tells the audit of what it changed. */
export async function act(
  action: Action,
  body: Readonly<Record<string, unknown>>,
  watched: Watched,
  operator: Operator,
  audit: (event: AuditEvent) => void,
): Promise<Answer> {
  const asked = askedFor(body, watched);
  if ('status' in asked) return asked;
  if (action === 'peek') return peek(watched, asked);
  const { forMs } = body;
  if (action === 'ban' && !(typeof forMs === 'number' && forMs > 0 && forMs <= LONGEST_BAN_MS)) {
    return problem(400, 'forMs: a ban lasts more than 0 ms and at most 400 days.');
  }
  if (action !== 'reset' && watched.limiter.store.ban === undefined) {
    return problem(409, 'The store knows no bans.');
  }
  const { limiter } = watched;
  const event = {
    action,
    limit: asked.limit,
    key: limiter.shownKey(asked.key),
    by: operator.name,
    at: Date.now(),
    ...(action === 'ban' && { forMs: forMs as number }),
  };
  try {
    await change(action, limiter, { [asked.limit]: asked.key }, forMs as number);
  } catch (error) {
    audit({ ...event, error });
    return problem(503, `The store did not confirm it: ${safeMessage(error)}`);
  }
  audit(event);
  return json(200, { done: action });
}

function change(
  action: Exclude<Action, 'peek'>,
  limiter: Limiter,
  keys: Keys,
  forMs: number,
): void | Promise<void> {
  switch (action) {
    case 'reset':
      return limiter.reset(keys);
    case 'ban':
      return limiter.ban(keys, forMs);
    case 'unban':
      return limiter.unban(keys);
  }
}

async function peek({ limiter, traffic }: Watched, asked: Asked): Promise<Answer> {
  const { limit, key, policy, varies } = asked;
  if (varies && policy === undefined) {
    return traffic.of(limit).policies.length === 0
      ? problem(409, 'Requests bring the policy of this limit, and none has yet in this process.')
      : problem(409, 'Requests bring the policy of this limit. Choose the one to look by.');
  }
  const policies = policy && { policies: { [limit]: policy } };
  const decision = await limiter.peek({ [limit]: key }, policies);
  const [verdict] = decision.verdicts;
  if (verdict === undefined) {
    return problem(503, 'The store does not answer, and the limit lets requests pass meanwhile.');
  }
  return json(200, standing(verdict));
}

function standing(verdict: Verdict): Standing {
  const { allowed, shadow, reason, source, cost, limit, remaining } = verdict;
  const finite = (ms: number): number | null => (ms === Infinity ? null : ms);
  return {
    allowed,
    shadow,
    reason,
    source,
    cost,
    limit,
    remaining,
    policy: policyState(verdict.policy),
    nextAfterMs: finite(verdict.nextAfterMs),
    resetAfterMs: finite(verdict.resetAfterMs),
    retryAfterMs: finite(verdict.retryAfterMs),
  };
}

/** Which key of which limit a body means: the `key` itself, or `listed`, as a list of refused keys shows it. */
function askedFor(body: Readonly<Record<string, unknown>>, watched: Watched): Asked | Answer {
  const { limit: name, key, listed, policy: index } = body;
  const limit = watched.limiter.limits.all.find((each) => each.name === name);
  if (limit === undefined) return problem(404, 'There is no such limit.');
  const meant = typeof listed === 'string' ? keyOf(listed, limit.name, watched) : key;
  if (meant === undefined && typeof listed === 'string') {
    return problem(404, 'This process does not know which key that is. Type the key itself.');
  }
  if (typeof meant !== 'string' || meant === '') return problem(400, 'key: expected a text.');
  if (limit.rules !== undefined) {
    return { limit: limit.name, key: meant, policy: undefined, varies: false };
  }
  const { policies } = watched.traffic.of(limit.name);
  const policy = typeof index === 'number' ? policies[index] : watched.policyFor(limit.name, meant);
  return { limit: limit.name, key: meant, policy, varies: true };
}

function keyOf(listed: string, name: string, { limiter, traffic }: Watched): string | undefined {
  const isItself = limiter.shownKey(listed) === listed && !listed.includes(CUT);
  if (isItself) return listed;
  return traffic.of(name).keyShownAs(listed, (key) => limiter.shownKey(key));
}
