import type { Answer, Charge, Correction, Mode, Store } from '../src/store.ts';
import { type MemoryStore, memoryStore, type MemoryStoreOptions } from '../src/stores/memory.ts';

/** A store that answers with promises, as one at the other end of a network does, and notes what it is asked. */
export class PromisedStore implements Store<true> {
  readonly async = true;
  readonly asked: string[] = [];
  readonly inner: MemoryStore;
  /** Answers arrive only once this has resolved. */
  arrival: Promise<void> = Promise.resolve();
  /** What every call rejects with. */
  fault: Error | undefined;

  constructor(options?: MemoryStoreOptions) {
    this.inner = memoryStore(options);
  }

  decide(charges: readonly Charge[], mode: Mode): Promise<Answer> {
    return this.answer(mode, () => this.inner.decide(charges, mode));
  }

  correct(corrections: readonly Correction[]): Promise<void> {
    return this.answer('correct', () => this.inner.correct(corrections));
  }

  refund(charges: readonly Charge[]): Promise<void> {
    return this.answer('refund', () => this.inner.refund(charges));
  }

  renew(charges: readonly Charge[]): Promise<boolean[]> {
    return this.answer('renew', () => this.inner.renew(charges));
  }

  reset(keys: readonly Pick<Charge, 'name' | 'key'>[]): Promise<void> {
    return this.answer('reset', () => this.inner.reset(keys));
  }

  close(): Promise<void> {
    return this.answer('close', () => this.inner.close());
  }

  private async answer<T>(call: string, value: () => T): Promise<T> {
    this.asked.push(call);
    if (this.fault !== undefined) throw this.fault;
    const answer = value();
    await this.arrival;
    return answer;
  }
}
