import type { Batches } from './batch.ts';
import type { Item } from './group.ts';
import { slotOf } from './slots.ts';

/** Where items are asked of Redis. An item keeps to the deadline of a call that was made at `madeAt`. */
export interface Queue {
  run<T>(item: Item<T>, madeAt?: number): Promise<T>;
}

/** What of a slot is not answered yet. */
interface SlotQueue {
  readonly batches: Batches;
  waiting: number;
}

/**
 * A queue per slot of a cluster, since a script may touch the keys of one slot only. A queue lasts as long as something
 * is under way in its slot.
 */
export class SlotQueues implements Queue {
  private readonly open: (isIdle: () => boolean) => Batches;
  private readonly queues = new Map<number, SlotQueue>();

  /** @param open makes a slot's queue. */
  constructor(open: (isIdle: () => boolean) => Batches) {
    this.open = open;
  }

  /** Asks an item whose keys are all of one slot. */
  async run<T>(item: Item<T>, madeAt?: number): Promise<T> {
    const slot = slotOf(item.keys[0] ?? '');
    const queue = this.queues.get(slot) ?? this.add(slot);
    queue.waiting++;
    try {
      return await queue.batches.run(item, madeAt);
    } finally {
      if (--queue.waiting === 0) this.queues.delete(slot);
    }
  }

  private add(slot: number): SlotQueue {
    const queue: SlotQueue = { batches: this.open(() => queue.waiting === 1), waiting: 0 };
    this.queues.set(slot, queue);
    return queue;
  }
}
