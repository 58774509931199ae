import {
  type Answer,
  type Charge,
  type Correction,
  type MemoryStore,
  type Mode,
  type Store,
} from '@tollgate/core';
import { Clock } from './clock.ts';

/** A store at the other end of a network: what it decides is done at once, and known later. */
export class LateStore implements Store<true> {
  readonly async = true;
  readonly clock: Clock = new Clock();
  /** Answers that are on their way, while they are held up. */
  readonly underway: (() => void)[] = [];
  isHeldUp = false;
  /** What every call rejects with. */
  fault: Error | undefined;

  private get inner(): MemoryStore {
    return this.clock.store;
  }

  decide(charges: readonly Charge[], mode: Mode): Promise<Answer> {
    return this.answer(() => this.inner.decide(charges, mode));
  }

  correct(corrections: readonly Correction[]): Promise<void> {
    return this.answer(() => this.inner.correct(corrections));
  }

  refund(charges: readonly Charge[]): Promise<void> {
    return this.answer(() => this.inner.refund(charges));
  }

  renew(charges: readonly Charge[]): Promise<boolean[]> {
    return this.answer(() => this.inner.renew(charges));
  }

  reset(keys: readonly Pick<Charge, 'name' | 'key'>[]): Promise<void> {
    return this.answer(() => this.inner.reset(keys));
  }

  close(): void {
    this.inner.close();
  }

  /** Lets everything arrive that is held up. */
  arrive(): void {
    this.isHeldUp = false;
    for (const arrive of this.underway.splice(0)) arrive();
  }

  private async answer<T>(decided: () => T): Promise<T> {
    if (this.fault !== undefined) throw this.fault;
    const answer = decided();
    if (this.isHeldUp) await new Promise<void>((resolve) => this.underway.push(resolve));
    else await new Promise(setImmediate);
    return answer;
  }
}
