/**
 * Claiming: as many jobs as there are free slots, as soon as there may be some. A claim that was
 * answered in full is followed by the next at once. After one that was not, the queue is asked again
 * after a few growing pauses, because a notification may overtake the rows it speaks of; then only
 * every `pollS`.
 */

import { claimJobs } from "../calls/index.ts";
import { now } from "./clock.ts";
import type { Loop } from "./loop.ts";
import type { Line } from "./outage.ts";
import type { Outcomes } from "./outcomes.ts";
import type { Slots } from "./slots.ts";
import type { Ready } from "./starts.ts";

const PAUSES_S = [0.005, 0.025, 0.125];
// The first jobs after a rest are asked for in small number: they run while more are fetched.
const FIRST_CLAIM = 100;
const LARGEST_CLAIM = 1_000;

export interface ClaimSettings {
  readonly workerId: string;
  readonly definitions: readonly string[];
  readonly leaseS: number;
  readonly pollS: number;
}

export class Claims {
  claimed = 0;
  readonly #settings: ClaimSettings;
  readonly #line: Line;
  readonly #slots: Slots;
  readonly #outcomes: Outcomes;
  readonly #ready: Ready;
  readonly #onReady: () => void;
  #pause = 0;
  #room = FIRST_CLAIM;

  constructor(
    settings: ClaimSettings,
    line: Line,
    parts: {
      readonly slots: Slots;
      readonly outcomes: Outcomes;
      readonly ready: Ready;
      readonly onReady: () => void;
    },
  ) {
    this.#settings = settings;
    this.#line = line;
    this.#slots = parts.slots;
    this.#outcomes = parts.outcomes;
    this.#ready = parts.ready;
    this.#onReady = parts.onReady;
  }

  async step(loop: Loop): Promise<void> {
    if (this.#outcomes.isCrowded) {
      await loop.rest(PAUSES_S[0]);
      return;
    }
    const limits = this.#slots.limits(this.#room);
    if (limits.size > 0) {
      const hasMore = await this.#claim(limits);
      this.#room = hasMore ? Math.min(4 * this.#room, LARGEST_CLAIM) : FIRST_CLAIM;
      if (hasMore) return;
    }
    const poll = this.#settings.pollS * (0.8 + 0.4 * Math.random());
    const pause = PAUSES_S[this.#pause] ?? poll;
    this.#pause += 1;
    if (await loop.rest(pause)) this.#pause = 0;
  }

  /** Whether there may be more. */
  async #claim(limits: ReadonlyMap<string, number>): Promise<boolean> {
    const { workerId, definitions, leaseS } = this.#settings;
    const sentAt = now();
    const jobs = await this.#line.run(claimJobs(workerId, limits, definitions, leaseS));
    this.#slots.take(limits, jobs);
    for (const job of jobs) this.#ready.push({ job, deadline: sentAt + leaseS });
    this.claimed += jobs.length;
    if (jobs.length > 0) {
      this.#pause = 0;
      this.#onReady();
    }
    let asked = 0;
    for (const limit of limits.values()) asked += limit;
    return jobs.length === asked;
  }
}
