/** How many more jobs of each queue a worker may start. */

import type { ClaimedJob } from "../job.ts";

/** A queue is known to have more when its last claim was answered in full, or it was told so. */
export class Slots {
  readonly total: number;
  readonly #free: Map<string, number>;
  readonly #more: Map<string, boolean>;

  constructor(queues: Readonly<Record<string, number>>) {
    this.#free = new Map(Object.entries(queues));
    this.#more = new Map(Object.keys(queues).map((queue) => [queue, true]));
    this.total = Object.values(queues).reduce((sum, slots) => sum + slots, 0);
  }

  /** What a claim for `room` jobs may ask for. The smallest first: none is crowded out. */
  limits(room: number): Map<string, number> {
    const open = [...this.#free].filter(([, free]) => free > 0).sort((a, b) => a[1] - b[1]);
    const limits = new Map<string, number>();
    let left = room;
    open.forEach(([queue, free], number) => {
      const limit = Math.min(free, Math.floor(left / (open.length - number)));
      limits.set(queue, limit);
      left -= limit;
    });
    return limits;
  }

  take(asked: ReadonlyMap<string, number>, claimed: readonly ClaimedJob[]): void {
    const taken = new Map<string, number>();
    for (const job of claimed) taken.set(job.queue, (taken.get(job.queue) ?? 0) + 1);
    for (const [queue, limit] of asked) {
      const count = taken.get(queue) ?? 0;
      this.#free.set(queue, (this.#free.get(queue) ?? 0) - count);
      this.#more.set(queue, count === limit);
    }
  }

  /** A job of this queue has ended. Whether others may be waiting for its slot. */
  give(queue: string): boolean {
    this.#free.set(queue, (this.#free.get(queue) ?? 0) + 1);
    return this.#more.get(queue) ?? false;
  }

  /** The queue was said to have a new job. */
  expect(queue: string): void {
    if (this.#more.has(queue)) this.#more.set(queue, true);
  }
}
