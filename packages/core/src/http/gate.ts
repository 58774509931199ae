import type { IncomingMessage, ServerResponse } from 'node:http';
import { Decision } from '../decision.ts';
import type { BookedCharge } from '../booking.ts';
import type { Verdict } from '../verdict.ts';
import { andThen, isPromise, type MaybePromise } from '../maybe-promise.ts';
import { show, TollgateArgumentError, TollgateConfigError } from '../errors.ts';
import { Limiter } from '../limiter.ts';
import { type Cost, MOST_LIMITS } from '../limits.ts';
import { consoleLogger, type Logger } from '../logger.ts';
import type { MostRefused, MostRefusedOptions } from '../refusals/refused-key.ts';
import { tellOfProcesses } from '../processes.ts';
import { type Asked, type Call, Charging } from './charging.ts';
import { decimal } from './decimal.ts';
import { Diagnostics } from './diagnostics.ts';
import { type GateLimit, gateLimit } from './gate-limit.ts';
import {
  checkGate,
  checkRoute,
  type GateLimitOptions,
  type GateOptions,
  limitsOf,
  type RouteOptions,
  type Stage,
} from './gate-options.ts';
import { seconds, UNKNOWN_POLICY } from './header-forms.ts';
import { type HeaderForm, parseForms, rateLimitHeaders, type ResponseHead } from './headers.ts';
import { Holds } from './hold.ts';
import { isGone } from './leaving.ts';
import { PROBLEM_TYPE, problemBytes, statusOf } from './problem.ts';
import { RejectionLog, type Rejections } from './rejections.ts';
import { hideFromRedirects } from './redirects.ts';
import { TollgateClosedGateError } from './refusal.ts';
import { addressOf, type HttpRequest } from './request.ts';
import type { ShedDecision } from './shed-decision.ts';
import type { Entrance } from './shedder.ts';
import { Turns } from './turns.ts';
import { type Provisional, Visit } from './visit.ts';

/** The limits that a request passes on its way, by stage, and what it costs there. */
export interface Lane<R> {
  readonly limits: Readonly<Record<Stage, readonly GateLimit<R>[]>>;
  readonly cost: Cost | ((request: R) => MaybePromise<Cost>) | undefined;
}

/** One request on its way through a gate, as an adapter hands it over. */
export interface Exchange<R> extends ResponseHead {
  /** The framework's request, which the functions of the options are given. */
  readonly request: R;
  readonly raw: IncomingMessage;
  readonly response: ServerResponse;
}

/** What an adapter tells of its framework. */
export interface Adapter<R> {
  /** The options that the gate takes there. */
  readonly options: readonly string[];
  /** Whether a request passes the gate in stages. */
  readonly staged: boolean;
  /** Whose word on the client's address the framework takes. */
  proxyTrust(request: R): 'none' | 'some' | 'all';
}

/** How a request comes out of a gate: decided, undecided since no limit applied, or its client gone meanwhile. */
export type Outcome = Decision | undefined | 'gone';

/** An answer to a refusal. */
export interface Refusal {
  readonly status: number;
  readonly type: string;
  /** UTF-8. */
  readonly body: Buffer;
}

interface Passing<R> {
  readonly exchange: Exchange<R>;
  readonly limits: readonly GateLimit<R>[];
  readonly visit: Visit;
}

const NO_CALL: Call = { priority: undefined, cost: undefined };

/**
 * A set of limits bound to a store and to HTTP requests: keys in, decision and headers out. Adapters only translate
 * between a framework and a gate.
 */
export class Gate<R extends HttpRequest> {
  /** The limiter of all the gate's limits, those of its routes included. */
  readonly limiter: Limiter;
  private readonly staged: boolean;
  private readonly options: GateOptions<R>;
  private readonly forms: readonly HeaderForm[];
  private readonly logger: Logger;
  private readonly diagnostics: Diagnostics<R>;
  private readonly charging: Charging<R>;
  private readonly log: RejectionLog;
  private readonly turns: Turns;
  private readonly holds: Holds;
  /** Where requests meet the shedder, if there is one. */
  private readonly entrance: Entrance | undefined;
  private readonly made = new Map<GateLimitOptions<R>, GateLimit<R>>();
  private readonly own: readonly GateLimit<R>[];
  private hasPreHandler = false;
  /** Whether any limit is in shadow mode, whose refusals of admitted requests are counted. */
  private hasShadows = false;
  private isClosed = false;

  constructor(options: GateOptions<R>, adapter: Adapter<R>) {
    checkGate(options, adapter.options);
    const {
      store,
      priorities,
      onDecision,
      onStoreError,
      logKeys,
      logger = consoleLogger,
    } = options;
    this.staged = adapter.staged;
    this.options = options;
    this.forms = parseForms(options.headers, 'headers');
    this.logger = logger;
    this.diagnostics = new Diagnostics(logger, (request) => adapter.proxyTrust(request));
    this.log = new RejectionLog(options.logKeys ?? 'clear', logger);
    const { maxWaiting = 1_000, maxWaitMs = 5_000 } = options;
    this.holds = new Holds(maxWaiting, maxWaitMs);
    this.limiter = new Limiter({
      limits: [],
      logger,
      ...(store && { store }),
      ...(priorities && { priorities }),
      ...(onDecision && { onDecision }),
      ...(onStoreError && { onStoreError }),
      ...(logKeys !== undefined && { logKeys }),
    });
    tellOfProcesses(this.limiter.store, logger);
    this.turns = new Turns(this.limiter, maxWaiting, maxWaitMs);
    const { priorities: ranked, defaultPriority } = this.limiter.limits;
    this.entrance = options.shedder?.entrance(ranked, defaultPriority);
    this.charging = new Charging(
      this.limiter.limits,
      this.diagnostics,
      options.functionTimeoutMs ?? 1_000,
    );
    this.own = this.add(limitsOf(options), 'limits');
    if (this.own.length > 0 && this.own.every(({ by }) => by.chosenByCaller === true)) {
      this.diagnostics.tell('TOLLGATE_FREE_KEYS');
    }
  }

  /**
   * The way through the gate: its own limits, or with what a route changes.
   *
   * @throws TollgateConfigError with the path of the option at fault and the mend.
   */
  lane(route?: RouteOptions<R>, path = 'rateLimit'): Lane<R> {
    if (route !== undefined) checkRoute(route, path);
    const { limits = [], inherit = true, cost } = route ?? {};
    const all = [...(inherit ? this.own : []), ...this.add(limits, `${path}.limits`)];
    if (all.length > MOST_LIMITS) {
      throw new TollgateConfigError(
        `${path}.limits`,
        `a request passes at most ${MOST_LIMITS} limits, here it would be ${all.length}`,
      );
    }
    if (cost !== undefined && typeof cost !== 'function') {
      this.charging.checkFixedCost(cost, all, `${path}.cost`);
    }
    return {
      limits: {
        onRequest: all.filter(({ stage }) => stage === 'onRequest'),
        preHandler: all.filter(({ stage }) => stage === 'preHandler'),
      },
      cost,
    };
  }

  /** Whether any limit, of a route too, is asked at the stage `preHandler`. */
  get asksInPreHandler(): boolean {
    return this.hasPreHandler;
  }

  /** Whether nothing is asked at a stage. The shedder is with the first limits, or alone where there are none. */
  isOpen({ limits }: Lane<R>, stage: Stage): boolean {
    if (limits[stage].length > 0) return false;
    const sheds = this.entrance !== undefined && limits.preHandler.length === 0;
    return !(sheds && stage === 'onRequest');
  }

  /**
   * Takes a request through the limits of a stage: charges them, sets the headers and, when the response is over,
   * settles what does not count. A refusal undoes what the request was charged before; the adapter answers it.
   */
  pass(exchange: Exchange<R>, lane: Lane<R>, stage: Stage): MaybePromise<Outcome> {
    const limits = lane.limits[stage];
    const { request, raw } = exchange;
    if (this.isOpen(lane, stage) || this.isExempt(request)) return undefined;
    if (isGone(exchange.response)) return 'gone';
    // A request that a unit test made up may have none, and is given some for what goes with them.
    const rawHeaders = (raw.rawHeaders ??= []);
    this.diagnostics.look(request, rawHeaders);
    const visit = Visit.of(rawHeaders);
    const passing = { exchange, limits, visit };
    if (visit.charges.length === 0) return this.decideOn(passing, lane);
    // What cannot be decided here is not served, and so is not charged for by those before.
    try {
      const outcome = this.decideOn(passing, lane);
      return isPromise(outcome)
        ? outcome.catch((error: unknown) => this.giveUp(passing, error))
        : outcome;
    } catch (error) {
      return this.giveUp(passing, error);
    }
  }

  private decideOn(passing: Passing<R>, lane: Lane<R>): MaybePromise<Outcome> {
    const call = this.callOf(passing.exchange.request, lane.cost);
    return isPromise(call)
      ? call.then((known) => hasLeft(passing) ?? this.ask(passing, known))
      : this.ask(passing, call);
  }

  /** Gives back what a request was charged before, tells so in its headers, and throws what is wrong with it. */
  private giveUp({ visit, exchange }: Passing<R>, error: unknown): Promise<never> {
    const fail = (): never => {
      rateLimitHeaders(visit.decisions, this.forms, exchange, this.options);
      throw error;
    };
    const undone = visit.cancel();
    return undone === undefined ? fail() : undone.then(fail);
  }

  /** Decides on a request outside the framework's flow, such as an upgrade. The caller answers, and releases slots. */
  consume(raw: IncomingMessage | R): MaybePromise<Decision> {
    const request = raw as R;
    // Without an address of its own it goes by that of its socket, which is the proxy's where there is one.
    if (request.ip === undefined) this.diagnostics.lookAtRaw(request);
    const call = this.callOf(request, undefined);
    if (isPromise(call)) return call.then((known) => this.decideAlone(request, known));
    return this.decideAlone(request, call);
  }

  /** Refusals since the gate was made, counted by limit and for the most refused keys. */
  rejections(): Rejections {
    return this.log.all();
  }

  /** The keys refused most in the last day, of this process or of the fleet; see the limiter's `mostRefused`. */
  mostRefused<Fleet extends boolean = false>(
    name?: string,
    options?: MostRefusedOptions<Fleet>,
  ): MostRefused<Fleet> {
    return this.limiter.mostRefused(name, options);
  }

  /** The answer to a refusal. */
  refusal({ request, raw }: Exchange<R>, decision: Decision): MaybePromise<Refusal> {
    const status = statusOf(decision.reason);
    const { problem } = this.options;
    if (problem === undefined) {
      return { status, type: PROBLEM_TYPE, body: problemBytes(Visit.of(raw.rawHeaders).decisions) };
    }
    const shaped = (body: unknown): Refusal => {
      if (typeof body === 'string') {
        return { status, type: 'text/plain; charset=utf-8', body: Buffer.from(body) };
      }
      if (typeof body === 'object' && body !== null) {
        return { status, type: PROBLEM_TYPE, body: Buffer.from(JSON.stringify(body)) };
      }
      throw new TollgateArgumentError(`expected an object or a text, got ${show(body)}`);
    };
    return this.charging.call(
      (each) => andThen(problem(each, decision), shaped),
      request,
      'problem',
    );
  }

  /**
   * Refuses those who wait for outcomes with an error of status 503, as all who come later, and frees the slots held.
   * Those whom a leaky bucket holds leave at their time. May be called again.
   */
  close(): MaybePromise<void> {
    this.isClosed = true;
    this.entrance?.close();
    this.turns.close();
    return this.limiter.close();
  }

  private add(limits: readonly GateLimitOptions<R>[], path: string): GateLimit<R>[] {
    return limits.map((options, index) => {
      const at = `${path}[${index}]`;
      const known = this.made.get(options);
      if (known !== undefined) return known;
      const made = gateLimit(options, (limit, where) => this.limiter.add(limit, where), at);
      if (!this.staged && options.stage !== undefined) {
        throw new TollgateConfigError(
          `${at}.stage`,
          'there are no stages here; mount the gate where its limits are to be asked',
        );
      }
      this.made.set(options, made);
      if (made.limit.shadow) this.hasShadows = true;
      if (made.stage === 'preHandler') this.hasPreHandler = true;
      // What counts its reservations in the store does so by slots.
      if (made.counts !== undefined) this.limiter.limits.holdSlots = true;
      return made;
    });
  }

  /** A refused CORS preflight would hide the 429 from the page, and a charged one would halve its budget. */
  private isExempt(request: R): boolean {
    if (request.method !== 'OPTIONS' || this.options.chargePreflights === true) return false;
    const { headers } = request;
    return headers.origin !== undefined && headers['access-control-request-method'] !== undefined;
  }

  private callOf(request: R, routeCost: Lane<R>['cost']): MaybePromise<Call> {
    const { priority: priorityOf } = this.options;
    if (priorityOf === undefined && routeCost === undefined) return NO_CALL;
    const priority = priorityOf && this.charging.call(priorityOf, request, 'priority');
    const cost =
      typeof routeCost === 'function' ? this.charging.routeCost(routeCost, request) : routeCost;
    if (!isPromise(priority) && !isPromise(cost)) return { priority, cost };
    return Promise.all([priority, cost]).then(([known, units]) => ({
      priority: known,
      cost: units,
    }));
  }

  private ask(passing: Passing<R>, call: Call): MaybePromise<Outcome> {
    const { exchange } = passing;
    const shed = this.entrance && this.shed(this.entrance, call, exchange.raw);
    if (shed !== undefined) {
      // It has no verdict that the headers could be told from.
      exchange.set('Retry-After', decimal(seconds(shed.retryAfterMs)));
      exchange.set('Cache-Control', 'no-store');
      return this.conclude(passing, shed);
    }
    if (passing.limits.length === 0) return undefined;
    const asked = this.charging.ask(passing.limits, exchange.request, call);
    return isPromise(asked)
      ? asked.then((all) => hasLeft(passing) ?? this.decide(passing, all))
      : this.decide(passing, asked);
  }

  /** The refusal of a request that the process has no time for, undefined to go on. */
  private shed(
    entrance: Entrance,
    { priority }: Call,
    raw: IncomingMessage | undefined,
  ): ShedDecision | undefined {
    try {
      return raw === undefined ? entrance.refuse(priority) : entrance.refuseOnce(raw, priority);
    } catch (error) {
      throw this.diagnostics.fault(error, 'priority');
    }
  }

  private decide(passing: Passing<R>, asked: readonly Asked[]): MaybePromise<Outcome> {
    const { visit, limits, exchange } = passing;
    if (this.isClosed) throw new TollgateClosedGateError();
    const charges: BookedCharge[] = [];
    let reserved: BookedCharge[] | undefined;
    let applied = false;
    for (let i = 0; i < asked.length; i++) {
      const charge = asked[i] as Asked;
      if (charge === 'denied') {
        return this.conclude(passing, denied(limits, asked, exchange.request));
      }
      if (charge !== undefined) applied = true;
      if (typeof charge !== 'object') continue;
      const again = visit.charges.length === 0 ? charge : visit.difference(charge);
      if (again === undefined) continue;
      charges.push(again);
      if (limits[i]?.counts !== undefined) (reserved ??= []).push(again);
    }
    if (!applied) this.diagnostics.tell('TOLLGATE_NO_LIMIT');
    if (charges.length === 0) return visit.decision();
    if (reserved !== undefined) {
      return this.turns.decide(charges, reserved, exchange.response, (decision) =>
        this.conclude(passing, decision, true),
      );
    }
    const decision = this.limiter.decide(charges, 'consume', false);
    return isPromise(decision)
      ? decision.then((late) => this.conclude(passing, late, true))
      : this.conclude(passing, decision);
  }

  private decideAlone(request: R, call: Call): MaybePromise<Decision> {
    const decide = (asked: readonly Asked[]): MaybePromise<Decision> => {
      if (asked.includes('denied')) return denied(this.own, asked, request);
      if (asked.every((each) => each === undefined)) this.diagnostics.tell('TOLLGATE_NO_LIMIT');
      const charges = asked.filter((each) => typeof each === 'object');
      return this.limiter.decide(charges, 'consume', false);
    };
    const conclude = (decision: Decision): Decision => {
      this.limiter.notify(decision);
      if (!decision.allowed) this.reject(request, decision);
      else if (this.hasShadows) this.log.add(decision);
      return decision;
    };
    const shed = this.entrance && this.shed(this.entrance, call, undefined);
    if (shed !== undefined) return conclude(shed);
    const asked = this.charging.ask(this.own, request, call);
    const decision = isPromise(asked) ? asked.then(decide) : decide(asked);
    return isPromise(decision) ? decision.then(conclude) : conclude(decision);
  }

  /** Tells of a decision, notes it on the request, shows it, and prepares what follows the response. */
  private conclude(passing: Passing<R>, decided: Decision, waited = false): MaybePromise<Outcome> {
    const { visit, exchange } = passing;
    const { response } = exchange;
    const charges = decided.charges();
    const decision = this.holds.refuse(decided) ?? decided;
    this.limiter.notify(decision);
    const undone = decision.allowed ? undefined : visit.cancel();
    visit.add(decision, charges);
    if (waited && hasLeft(passing)) return 'gone';
    if (this.forms.length > 0 || !decision.allowed) {
      rateLimitHeaders(visit.decisions, this.forms, exchange, this.options);
    }
    if (!decision.allowed) {
      this.reject(exchange.request, decision);
      return undone === undefined ? decision : undone.then(() => decision);
    }
    if (this.hasShadows) this.log.add(decision);
    this.watch(passing, charges);
    if (this.forms.length > 0 && decision.remaining === 0) {
      hideFromRedirects(response, visit.decisions);
    }
    const all = visit.decision() ?? decision;
    return decision.delayMs > 0 ? this.holds.hold(all, response) : all;
  }

  /** Has a visit settle what depends on how the response ends. */
  private watch({ limits, visit, exchange }: Passing<R>, charges: readonly BookedCharge[]): void {
    let provisional: Provisional[] | undefined;
    let holdsSlot = false;
    for (const charge of charges) {
      if (charge.rule.holdsSlots) holdsSlot = true;
      const counts = countsOf(limits, charge.name);
      if (counts === undefined || charge.receipt === undefined) continue;
      (provisional ??= []).push(this.reserve(charge, counts));
    }
    if (holdsSlot || provisional !== undefined) visit.watch(exchange.response, provisional ?? []);
  }

  /** Notes that a charge may be given back. */
  private reserve(charge: BookedCharge, counts: (status: number) => boolean): Provisional {
    const { reservations } = this.turns;
    reservations.open(charge);
    return {
      charge,
      counts: (status) => this.charging.counted(charge, counts, status),
      known: () => reservations.close(charge),
    };
  }

  private reject(request: R, decision: Decision): void {
    this.log.add(decision);
    const report = (error: unknown): void => this.logger.error({ err: error }, 'onReject failed');
    try {
      const told: unknown = this.options.onReject?.(request, decision);
      if (isPromise(told)) told.catch(report);
    } catch (error) {
      report(error);
    }
  }
}

/** Whether the client has left while something was waited for: what was charged is given back then. */
function hasLeft<R>({ visit, exchange }: Passing<R>): 'gone' | undefined {
  if (!isGone(exchange.response)) return undefined;
  void visit.cancel();
  return 'gone';
}

/** Which outcomes a limit counts. On the path of every request, where find() would make a closure. */
function countsOf<R>(limits: readonly GateLimit<R>[], name: string): GateLimit<R>['counts'] {
  for (const { limit, counts } of limits) if (limit.name === name) return counts;
  return undefined;
}

/** A refusal by deny lists: no store was asked, so it has no numbers. */
function denied<R extends HttpRequest>(
  limits: readonly GateLimit<R>[],
  asked: readonly Asked[],
  request: R,
): Decision {
  const verdicts = limits
    .filter((_, index) => asked[index] === 'denied')
    .map(({ limit, policy = UNKNOWN_POLICY }): Verdict => ({
      name: limit.name,
      key: addressOf(request) ?? 'no address',
      policy,
      allowed: false,
      shadow: false,
      reason: 'denied',
      source: 'none',
      cost: 0,
      limit: 0,
      remaining: 0,
      nextAfterMs: Infinity,
      resetAfterMs: Infinity,
      retryAfterMs: Infinity,
    }));
  return new Decision({ admitted: false, verdicts, at: Date.now() * 1_000, delay: 0 }, []);
}
