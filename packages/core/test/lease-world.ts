import type { Receipt, Rule, State } from '../src/algorithm.ts';
import type { LeaseRule } from '../src/lease.ts';
import { grantOf, type Asked, type Told } from '../src/redis/grant.ts';
import { type Ask, giveBack, Lease } from '../src/redis/lease.ts';

/**
 * What may happen to a process.
 * - request: one comes; what it needs of the store is sent, and not answered yet
 * - served: one comes, and the store answers at once
 * - burst: so many come as are admitted, and the store answers at once
 * - arrive: what was sent comes to the store
 * - reply: the store's answer comes back
 * - lose: what was sent, or the answer, never comes
 * - crash: what it knew is gone
 * - hand back: it gives back what it holds
 * - settle: the last request admitted turns out to cost nothing
 */
export const KINDS = [
  'request',
  'served',
  'burst',
  'arrive',
  'reply',
  'lose',
  'crash',
  'hand back',
  'settle',
] as const;

/** What happens next: to one of the processes, or to time. */
export type Step = 'time passes' | readonly [kind: (typeof KINDS)[number], process: number];

/** What a world is of, and what may be wrong in it. */
export interface Setup {
  readonly terms: LeaseRule;
  /** By how much faster than the store's each process's clock runs, in thousandths. */
  readonly drifts: readonly number[];
  /** How far time goes at once, in µs of the store. */
  readonly tick: number;
  /** When it begins, in µs. */
  readonly from: number;
  readonly Machine?: typeof Lease;
  readonly grant?: (free: number, asked: Asked) => number;
}

/** A call under way: not with the store yet, or answered. */
interface Call {
  readonly ask: Ask;
  told: Told | undefined;
}

interface Process {
  readonly drift: number;
  lease: Lease;
  call: Call | undefined;
  /** The last admission, until it is settled. */
  last: { readonly receipt: Receipt; readonly admission: Admission } | undefined;
  crashes: number;
}

/** A unit that was admitted, and when by the store's clock. */
export interface Admission {
  readonly at: number;
}

/** Some processes and one store: the real machines and rules, with everything between them in the hands of a test. */
export class World {
  readonly admissions: Set<Admission> = new Set();
  readonly processes: readonly Process[];
  private readonly setup: Setup;
  private now: number;
  private state: State;
  private slots = 1;
  private wasServed = false;

  constructor(setup: Setup) {
    this.setup = setup;
    this.now = setup.from;
    this.state = Array.from({ length: this.rule.size ?? 0 }, () => 0);
    this.processes = setup.drifts.map((drift) => {
      const process = { drift, call: undefined, last: undefined, crashes: 0 };
      return { ...process, lease: this.machine(drift) };
    });
  }

  private get rule(): Rule {
    return this.setup.terms.rule;
  }

  /** Whether a step may be one: that of a request that is refused turns out to be none when it is taken. */
  may(step: Step): boolean {
    if (step === 'time passes') return true;
    const { call, last, lease } = this.processes[step[1]] as Process;
    switch (step[0]) {
      case 'request':
        return true;
      case 'served':
      case 'burst':
        return call === undefined;
      case 'arrive':
        return call !== undefined && call.told === undefined;
      case 'reply':
        return call?.told !== undefined;
      case 'lose':
        return call !== undefined;
      case 'crash':
        return call !== undefined || lease.spare > 0 || last !== undefined;
      case 'hand back':
        return call === undefined && lease.spare > 0;
      case 'settle':
        return last !== undefined;
    }
  }

  /** Takes a step; false where it is none. */
  take(step: Step): boolean {
    if (step === 'time passes') {
      this.now += this.setup.tick;
      return true;
    }
    const process = this.processes[step[1]] as Process;
    switch (step[0]) {
      case 'request':
        return this.request(process);
      case 'served':
        return this.served(process);
      case 'burst':
        return this.burst(process);
      case 'arrive':
        return this.arrive(process);
      case 'reply':
        return this.reply(process);
      case 'lose':
        return this.lose(process);
      case 'crash':
        return this.crash(process);
      case 'hand back':
        return this.handBack(process);
      case 'settle':
        return this.settle(process);
    }
  }

  private request(process: Process): boolean {
    const { lease } = process;
    const now = this.local(process.drift);
    const taken = lease.take(1, now);
    if (taken === 'short') {
      if (lease.isAsking) return false;
      this.send(process, [[1, 1]]);
      return true;
    }
    if (taken === 'refused') return false;
    this.admit(process, taken, this.now);
    if (lease.isLow) this.send(process, []);
    return true;
  }

  private served(process: Process): boolean {
    const before = this.admissions.size;
    const isStep = this.request(process);
    this.arrive(process);
    this.reply(process);
    this.wasServed = this.admissions.size > before;
    return isStep;
  }

  private burst(process: Process): boolean {
    const isStep = this.served(process);
    while (this.wasServed) this.served(process);
    return isStep;
  }

  private send(process: Process, costs: Ask['costs']): void {
    const ask = process.lease.ask(costs, this.local(process.drift));
    if (ask !== undefined) process.call = { ask, told: undefined };
  }

  /** The store carries out a call. */
  private arrive({ call }: Process): boolean {
    if (call === undefined || call.told !== undefined) return false;
    for (const { receipt, units } of call.ask.back) this.takeBack(receipt, units);
    const { rule, state, now } = this;
    rule.roll(state, now, 0);
    const free = rule.remaining(state, now);
    const grant = this.setup.grant ?? ((units, asked) => grantOf(units, asked, () => 1));
    const units = grant(free, call.ask);
    if (units > 0) rule.add(state, units, now, this.slots++, 0);
    call.told = { units, free, banned: 0, at: now, state: [...state] };
    return true;
  }

  private reply(process: Process): boolean {
    const { call, lease, drift } = process;
    if (call?.told === undefined) return false;
    process.call = undefined;
    const { times, receipt } = lease.granted(call.ask, call.told, this.local(drift));
    // One who waited was admitted when the store said so.
    if (times[0] === 1) this.admit(process, receipt, call.told.at);
    return true;
  }

  /** The call or its reply is lost, and the process gives up. */
  private lose(process: Process): boolean {
    if (process.call === undefined) return false;
    process.call = undefined;
    process.lease.lost();
    return true;
  }

  private crash(process: Process): boolean {
    process.call = undefined;
    process.last = undefined;
    process.crashes++;
    process.lease = this.machine(process.drift);
    return true;
  }

  private handBack(process: Process): boolean {
    const { lease, call, drift } = process;
    if (call !== undefined || lease.spare === 0) return false;
    for (const { receipt, units } of lease.end()) this.takeBack(receipt, units);
    // One that should have kept nothing goes on.
    if (lease.spare === 0) process.lease = this.machine(drift);
    return true;
  }

  /** The last request admitted turns out to cost nothing. */
  private settle(process: Process): boolean {
    const { last, drift } = process;
    if (last === undefined) return false;
    process.last = undefined;
    this.admissions.delete(last.admission);
    for (const { receipt, units } of giveBack(last.receipt, 1, this.local(drift)) ?? []) {
      this.takeBack(receipt, units);
    }
    return true;
  }

  private admit(process: Process, receipt: Receipt, at: number): void {
    const admission = { at };
    this.admissions.add(admission);
    process.last = { receipt, admission };
  }

  private takeBack(receipt: Receipt, units: number): void {
    this.rule.roll(this.state, this.now, 0);
    this.rule.giveBack(this.state, units, this.now, receipt);
  }

  /** What a process's clock shows. */
  private local(drift: number): number {
    return Math.floor((this.now * (1_000 + drift)) / 1_000);
  }

  /** A lease of a process that has seen many requests, and so asks for as much as it may hold. */
  private machine(drift: number): Lease {
    const { terms, Machine = Lease, tick } = this.setup;
    const now = this.local(drift);
    const lease = new Machine({ name: 'a', key: 'k', storeKey: 'k' }, terms, now - 100 * tick);
    lease.ask([[1_000_000, 1]], now);
    lease.lost();
    return lease;
  }

  /** Names the state: worlds of one name go on alike. How many requests there were is left out, since they are many. */
  name(): string {
    const processes = this.processes.map(({ drift, lease, call, last, crashes }) => {
      const { live, left, owed, asking, said, renewAt } = lease as unknown as Inside;
      return [
        live.map(numbersOf),
        left.map(numbersOf),
        owed,
        renewAt,
        asking === undefined ? 0 : asked(asking),
        said === undefined ? 0 : [said.askedAt, said.heardAt, said.at, said.free, said.state],
        call?.told === undefined ? 0 : [call.told.at, call.told.units, call.told.state],
        last === undefined ? 0 : [last.receipt, last.admission.at],
        crashes,
        drift,
      ];
    });
    const admissions = Array.from(this.admissions, ({ at }) => at).toSorted((a, b) => a - b);
    // Which of two alike processes it is makes no difference.
    const alike = processes.map((process) => JSON.stringify(process)).toSorted();
    return JSON.stringify([this.now, this.state, admissions, alike]);
  }
}

/** What a lease keeps to itself. */
interface Inside {
  readonly live: readonly Held[];
  readonly left: readonly Held[];
  readonly owed: number;
  readonly renewAt: number;
  readonly asking: Ask | undefined;
  readonly said: (Told & { readonly askedAt: number; readonly heardAt: number }) | undefined;
}

interface Held {
  readonly units: number;
  readonly until?: number;
  readonly receipt: Receipt;
}

function numbersOf({ units, until, receipt }: Held): unknown {
  return [units, until, receipt];
}

function asked({ costs, extra, owed, at, back }: Ask): unknown {
  return [costs, extra, owed, at, back.map(numbersOf)];
}
