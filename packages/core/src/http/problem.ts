import type { Decision } from '../decision.ts';
import { graver, type Reason } from '../verdict.ts';
import { TollgateArgumentError } from '../errors.ts';

/** The media type of a problem (RFC 9457 §6.1). */
export const PROBLEM_TYPE = 'application/problem+json';

/** Why a request was refused, for programs to read (RFC 9457 §3.1). Never holds a key, token or address. */
export interface Problem {
  readonly type: string;
  readonly title: string;
  /** The status of the response. */
  readonly status: number;
  /** The names of the limits that refused (draft-ietf-httpapi-ratelimit-headers-11 §5), in order; none for a shedder. */
  readonly 'violated-policies': readonly string[];
}

type Refusal = Exclude<Reason, 'ok'>;

interface Kind {
  readonly status: number;
  readonly type: string;
  readonly title: string;
  /** By the names of the limits that refused. */
  readonly bodies: Map<string, Buffer>;
}

const REGISTRY = 'https://iana.org/assignments/http-problem-types#';

const REDUCED_CAPACITY: Kind = {
  status: 503,
  type: `${REGISTRY}temporary-reduced-capacity`,
  title: 'Request cannot be satisfied due to temporary server capacity constraints',
  bodies: new Map(),
};

/** The problem types of draft-11 §5. */
const KINDS: Readonly<Record<Refusal, Kind>> = {
  'store-unavailable': REDUCED_CAPACITY,
  // A client that is not wanted violates no quota; the type says no more than the status (RFC 9457 §4.2.1).
  denied: { status: 403, type: 'about:blank', title: 'Forbidden', bodies: new Map() },
  banned: {
    status: 429,
    type: `${REGISTRY}abnormal-usage-detected`,
    title: 'Request not satisfied due to detection of abnormal request pattern',
    bodies: new Map(),
  },
  overloaded: REDUCED_CAPACITY,
  limited: {
    status: 429,
    type: `${REGISTRY}quota-exceeded`,
    title: 'Request cannot be satisfied as assigned quota has been exceeded',
    bodies: new Map(),
  },
};

/** Of a kind: more than an application has sets of limits that refuse together. Beyond it the oldest is made anew. */
const MOST_BODIES = 1_000;

/** The status that answers a reason: 200 for `ok`, else 403, 429 or 503. */
export function statusOf(reason: Reason): number {
  return reason === 'ok' ? 200 : KINDS[reason].status;
}

/** The gravest reason of all decisions. */
function gravest(decisions: readonly Decision[]): Refusal {
  let reason: Reason = 'ok';
  for (const decision of decisions) reason = graver(reason, decision.reason);
  if (reason !== 'ok') return reason;
  throw new TollgateArgumentError('No decision refuses, so there is no problem to describe.');
}

/** The names of the limits that refused, comma-separated. A denied client is told of no other limit's state. */
function refusing(decisions: readonly Decision[], reason: Refusal): string {
  let names = '';
  for (const { verdicts } of decisions) {
    for (const verdict of verdicts) {
      if (verdict.allowed || verdict.shadow) continue;
      if (reason === 'denied' && verdict.reason !== 'denied') continue;
      names = names === '' ? verdict.name : `${names},${verdict.name}`;
    }
  }
  return names;
}

function describe(reason: Refusal, names: string): Problem {
  const { type, title, status } = KINDS[reason];
  const violated = names === '' ? [] : [...new Set(names.split(','))];
  return { type, title, status, 'violated-policies': violated };
}

/**
 * The problem that a refusal's body tells of, by the gravest reason of all its decisions.
 *
 * @throws TollgateArgumentError when no decision refuses.
 */
export function problemBody(decisions: readonly Decision[]): Problem {
  const reason = gravest(decisions);
  return describe(reason, refusing(decisions, reason));
}

/**
 * `problemBody` as JSON in UTF-8. Limits that refuse together tend to do so often, so that their body is remembered.
 *
 * @throws TollgateArgumentError when no decision refuses.
 */
export function problemBytes(decisions: readonly Decision[]): Buffer {
  const reason = gravest(decisions);
  const names = refusing(decisions, reason);
  const { bodies } = KINDS[reason];
  const known = bodies.get(names);
  if (known !== undefined) return known;
  const body = Buffer.from(JSON.stringify(describe(reason, names)));
  if (bodies.size >= MOST_BODIES) bodies.delete(bodies.keys().next().value ?? '');
  bodies.set(names, body);
  return body;
}
