/** How many more jobs of each queue a worker may start. */

import type { ClaimedJob } from "../types/jobs.ts";

/** A queue is known to have more when its last claim was answered in full, or it was told so. */
export class Slots {
  readonly total: number;
  readonly #free: Map<string, number>;
  readonly #hasJobs: Map<string, boolean>;

  constructor(queues: Readonly<Record<string, number>>) {
    this.#free = new Map(Object.entries(queues));
    this.#hasJobs = new Map(Object.keys(queues).map((queue) => [queue, true]));
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

  /** A claim is on its way, and nobody else may have what it asks for. Answers how much that is. */
  reserve(asked: ReadonlyMap<string, number>): number {
    let sum = 0;
    for (const [queue, limit] of asked) {
      this.#free.set(queue, this.#freeOf(queue) - limit);
      sum += limit;
    }
    return sum;
  }

  /** It brought these; without them, it failed. Whether one of the queues was answered in full. */
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

  /** Whether a queue that is known to have more has a free slot too. */
  get hasRoomForMore(): boolean {
    return [...this.#hasJobs].some(([queue, more]) => more && this.#freeOf(queue) > 0);
  }

  /** A job of this queue has ended. Whether others may be waiting for its slot. */
  release(queue: string): boolean {
    this.#free.set(queue, this.#freeOf(queue) + 1);
    return this.#hasJobs.get(queue) ?? false;
  }

  /** The queue was said to have a new job. */
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
