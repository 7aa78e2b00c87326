/** The free slots of each queue: how many more of its jobs a worker may start. */

import type { ClaimedJob } from "../types/jobs.ts";

/**
 * Free slots by queue. A queue is known to have more jobs if its last claim was full, or after a
 * notification.
 */
export class Slots {
  readonly total: number;
  readonly #free: Map<string, number>;
  readonly #hasJobs: Map<string, boolean>;

  constructor(queues: Readonly<Record<string, number>>) {
    this.#free = new Map(Object.entries(queues));
    this.#hasJobs = new Map(Object.keys(queues).map((queue) => [queue, true]));
    this.total = Object.values(queues).reduce((sum, slots) => sum + slots, 0);
  }

  /**
   * Return the limits of a claim for `room` jobs. Queues with the fewest free slots come first, so
   * that each gets a share.
   */
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

  /** Reserve the slots for a claim in flight. Returns their number. */
  reserve(asked: ReadonlyMap<string, number>): number {
    let sum = 0;
    for (const [queue, limit] of asked) {
      this.#free.set(queue, this.#freeOf(queue) - limit);
      sum += limit;
    }
    return sum;
  }

  /**
   * Apply the result of a claim; null if it failed. Returns whether one of the queues returned as
   * many jobs as requested.
   */
  applyClaim(asked: ReadonlyMap<string, number>, claimed: readonly ClaimedJob[] | null): boolean {
    const counts = countByQueue(claimed ?? [], asked);
    let isFull = false;
    for (const [queue, limit] of asked) {
      const count = counts.get(queue) ?? 0;
      this.#free.set(queue, this.#freeOf(queue) + limit - count);
      if (claimed === null) continue;
      this.#hasJobs.set(queue, count === limit && limit > 0);
      isFull ||= count === limit && limit > 0;
    }
    return isFull;
  }

  /** Whether a queue with more jobs has a free slot. */
  get hasRoomForMore(): boolean {
    return [...this.#hasJobs].some(([queue, more]) => more && this.#freeOf(queue) > 0);
  }

  /** Free the slot of a job that has ended. Returns whether the queue may have more jobs. */
  release(queue: string): boolean {
    this.#free.set(queue, this.#freeOf(queue) + 1);
    return this.#hasJobs.get(queue) ?? false;
  }

  /** Record a notification of a new job in this queue. */
  markHasJobs(queue: string): void {
    if (this.#hasJobs.has(queue)) this.#hasJobs.set(queue, true);
  }

  #freeOf(queue: string): number {
    return this.#free.get(queue) ?? 0;
  }
}

function countByQueue(
  jobs: readonly ClaimedJob[],
  asked: ReadonlyMap<string, number>,
): ReadonlyMap<string, number> {
  const [only] = asked.keys();
  if (asked.size === 1 && only !== undefined) return new Map([[only, jobs.length]]);
  const counts = new Map<string, number>();
  for (const { queue } of jobs) counts.set(queue, (counts.get(queue) ?? 0) + 1);
  return counts;
}
