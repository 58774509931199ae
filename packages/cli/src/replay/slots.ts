import type { Decision } from '@tollgate/core';

interface Held {
  readonly until: number;
  readonly decision: Decision;
}

/** Slots that requests hold until they end, as a heap with the earliest end on top. */
export class Slots {
  private readonly heap: Held[] = [];

  hold(decision: Decision, until: number): void {
    const { heap } = this;
    let at = heap.length;
    heap.push({ until, decision });
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if ((heap[parent] as Held).until <= until) break;
      [heap[at], heap[parent]] = [heap[parent] as Held, heap[at] as Held];
      at = parent;
    }
  }

  /** Frees the slots of requests that ended by a time, each at its own; `setTime` turns the store's clock to that. */
  release(time: number, setTime: (time: number) => void): void {
    for (let top = this.heap[0]; top !== undefined && top.until <= time; top = this.heap[0]) {
      setTime(top.until);
      // The store is in memory: there is nothing to wait for.
      void top.decision.release();
      this.removeTop();
    }
  }

  private removeTop(): void {
    const { heap } = this;
    const last = heap.pop() as Held;
    if (heap.length === 0) return;
    heap[0] = last;
    for (let at = 0; ;) {
      const left = 2 * at + 1;
      const right = left + 1;
      let least = at;
      if (left < heap.length && (heap[left] as Held).until < (heap[least] as Held).until)
        least = left;
      if (right < heap.length && (heap[right] as Held).until < (heap[least] as Held).until) {
        least = right;
      }
      if (least === at) return;
      [heap[at], heap[least]] = [heap[least] as Held, heap[at] as Held];
      at = least;
    }
  }
}
