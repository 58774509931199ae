// What the figures are held to, and whether they meet it.
import { BARE, BARE_429, PEERS } from './http-subjects.mjs';
import { FLOOR, SUBJECTS } from './memory-subjects.mjs';
import { OURS as LEASES, PEER as LEASES_PEER } from './leases-subjects.mjs';
import { IN_FLIGHT } from './redis.mjs';
import { OURS, PEERS as REDIS_PEERS } from './redis-subjects.mjs';
import { figure } from './samples.mjs';

const BUCKET = 'Tollgate, token bucket';
const ONE_LIMIT = [BUCKET, 'Tollgate, fixed window', 'Tollgate, sliding window'];
const MEMORY_PEERS = Object.keys(SUBJECTS).filter((name) => SUBJECTS[name].peer && name !== FLOOR);

/** At most (or at least) so much, of the worst of several. A number that was not measured leaves the claim out. */
const most = (bound, claim, ...numbers) => ({
  claim,
  bound,
  met: (value) => value <= bound,
  numbers,
  worst: Math.max,
});
const least = (bound, claim, ...numbers) => ({
  claim,
  bound,
  met: (value) => value >= bound,
  numbers,
  worst: Math.min,
});

function ofDecisions(samples) {
  const ratio = (names, peer, metric, of) =>
    names.map((name) => samples.ratio(name, peer ?? name, metric, of));
  return [
    most(
      1.6,
      'a decision on one key costs at most 1.6 × the floor',
      ...ratio(ONE_LIMIT, FLOOR, 'hot'),
    ),
    most(
      1.5,
      'a decision on keys at random costs at most 1.5 × the floor',
      ...ratio(ONE_LIMIT, FLOOR, 'random'),
    ),
    most(
      1.1,
      'a refusal costs at most 1.1 × an admission',
      ...ratio(ONE_LIMIT, undefined, 'refused', 'hot'),
    ),
    most(
      100,
      'a key takes at most 100 bytes',
      ...ONE_LIMIT.map((name) => samples.of(name, 'bytesPerKey')),
    ),
    ...MEMORY_PEERS.map((peer) =>
      most(
        1,
        `a token bucket costs no more than ${peer}, whatever the keys`,
        ...['hot', 'refused', 'random'].map((metric) => samples.ratio(BUCKET, peer, metric)),
      ),
    ),
  ];
}

function ofExpiry(samples) {
  const ours = ONE_LIMIT.filter((name) => SUBJECTS[name].expires);
  return [
    most(
      10,
      'keys that come pause nobody for more than 10 ms',
      ...ours.map((name) => samples.of(name, 'filling')),
    ),
    most(
      10,
      'keys that expire pause nobody for more than 10 ms',
      ...ours.map((name) => samples.of(name, 'expiring')),
    ),
  ];
}

function ofHttp(samples, framework, title, share) {
  const peer = PEERS[framework];
  const perSecond = (name, other) => samples.ratio(name, other, 'perSecond');
  const cpu = (name, other) => samples.ratio(name, other, 'cpu');
  return [
    least(
      share,
      `${title} with Tollgate serves at least ${share} × bare`,
      perSecond('Tollgate', BARE),
    ),
    least(
      1,
      `${title}: with the same headers, as many requests as with ${peer}`,
      perSecond('Tollgate, headers: ["x-ratelimit"]', peer),
    ),
    least(
      0.9,
      `${title} refuses at least 0.9 × as many requests as a bare 429`,
      perSecond('Tollgate, refused', BARE_429),
    ),
    least(
      1,
      `${title} refuses as many requests as with ${peer}`,
      perSecond('Tollgate, refused', `${peer}, refused`),
    ),
    most(
      1,
      `${title}: a refusal takes no more CPU time than a served request`,
      cpu('Tollgate, refused', 'Tollgate'),
    ),
  ];
}

function ofRedis(samples) {
  const against = (names, metric) =>
    names.flatMap((name) => REDIS_PEERS.map((peer) => samples.ratio(name, peer, metric)));
  const one = [OURS.bucket, OURS.fixed];
  const claims = IN_FLIGHT.flatMap((inFlight) =>
    Object.entries(inFlight === 1 ? { hot: 1, distinct: 1 } : { hot: 5, distinct: 2 }).map(
      ([kind, times]) =>
        least(
          times,
          `${inFlight} in flight, ${kind === 'hot' ? 'one hot key' : 'distinct keys'}: at least ${times} × the decisions of the fastest peer`,
          ...against(one, `${kind} ${inFlight} perSecond`),
        ),
    ),
  );
  return [
    ...claims,
    least(
      0.5,
      'four layered limits cost less than two of a peer’s: at least 0.5 × its decisions',
      ...IN_FLIGHT.flatMap((inFlight) => against([OURS.layers], `distinct ${inFlight} perSecond`)),
    ),
    most(
      2,
      'four layered limits take no more of Redis’ CPU time than two of a peer’s',
      ...IN_FLIGHT.flatMap((inFlight) => against([OURS.layers], `distinct ${inFlight} redisCpu`)),
    ),
    most(
      1.25,
      'a fixed window takes at most 1.25 × the bytes per key of a peer’s',
      ...against([OURS.fixed], 'bytesPerKey'),
    ),
  ];
}

function ofLeases(samples) {
  const times = (other, metric) => samples.ratio(LEASES.leases, other, metric);
  return [
    least(
      20,
      'a hot key within its budget: at least 20 × the decisions of the peer',
      times(LEASES_PEER, 'within perSecond'),
    ),
    least(
      20,
      'a hot key within its budget: at least 20 × the decisions of a call each',
      times(LEASES.each, 'within perSecond'),
    ),
    most(
      0.05,
      'a hot key within its budget: at most 0.05 calls per decision',
      samples.of(LEASES.leases, 'within calls'),
    ),
    most(
      2,
      'a refusal costs a process at most 2 × what it costs in memory',
      times(LEASES.memory, 'refused cpu'),
    ),
  ];
}

const CLAIMS = {
  decisions: ofDecisions,
  expiry: ofExpiry,
  fastify: (samples) => ofHttp(samples, 'fastify', 'Fastify', 0.93),
  express: (samples) => ofHttp(samples, 'express', 'Express', 0.92),
  redis: ofRedis,
  leases: ofLeases,
};

/** A line for each claim of a suite that its samples can judge. */
export function reading(suite, samples) {
  const claims = CLAIMS[suite]?.(samples) ?? [];
  return claims
    .filter(({ numbers }) => numbers.length > 0 && !numbers.includes(undefined))
    .map(({ claim, met, numbers, worst }) => {
      const value = worst(...numbers.map(({ median }) => median));
      return `- ${met(value) ? 'Met' : '**Not met**'}: ${claim} (${figure(value)}).`;
    })
    .join('\n');
}
