/**
 * The leases of a worker's running jobs, with their deadlines. The heartbeat extends these leases,
 * and those of finished jobs until they are settled. A deadline is by the worker's clock and counts
 * from before the request that acquired or extended the lease, so it is never later than the
 * database's deadline.
 */

import type { StopReason } from "../sdk/verdict.ts";
import { type Beat, type ClaimedJob, leaseKey, type Token } from "../types/jobs.ts";
import { now, resync } from "./clock.ts";
import type { Run } from "./runner-protocol.ts";

interface HeldLease {
  readonly run: Run;
  readonly since: number;
  readonly timeout: NodeJS.Timeout;
  deadline: number;
  isLost: boolean;
}

export class LeaseTable {
  readonly #leaseS: number;
  readonly #held = new Map<ClaimedJob, HeldLease>();
  /** True from the start of a heartbeat until the database responds. */
  isUnanswered = false;
  #unsettledTokens: (heldForS: number) => readonly Token[] = () => [];

  constructor(leaseS: number) {
    this.#leaseS = leaseS;
  }

  get size(): number {
    return this.#held.size;
  }

  get runs(): Run[] {
    return [...this.#held.values()].map((held) => held.run);
  }

  /**
   * Set the function that returns finished jobs whose leases also need an extension, because they
   * have waited at least `heldForS` to be settled.
   */
  setUnsettledSource(getTokens: (heldForS: number) => readonly Token[]): void {
    this.#unsettledTokens = getTokens;
  }

  hold(run: Run, deadline: number, timeout: NodeJS.Timeout): void {
    this.#held.set(run.job, { run, since: now(), deadline, timeout, isLost: false });
    run.extend(deadline);
  }

  /** Remove a job that has ended. Returns how many seconds it ran; 0 if it ended at once. */
  drop(job: ClaimedJob): number {
    const held = this.#held.get(job);
    if (held === undefined) return 0;
    this.#held.delete(job);
    clearTimeout(held.timeout);
    return now() - held.since;
  }

  /**
   * Return the tokens of jobs that have run for at least `heldForS`, or that have ended and are not
   * settled.
   */
  tokens(heldForS: number): Token[] {
    const before = now() - heldForS;
    const running = [...this.#held.values()]
      .filter((held) => held.since <= before && !held.isLost)
      .map((held) => held.run.job);
    return [...running, ...this.#unsettledTokens(heldForS)];
  }

  /**
   * Apply the results of a heartbeat. Returns whether a lease could not be extended, so that
   * another heartbeat is due soon.
   */
  renew(sentAt: number, beats: readonly Beat[]): boolean {
    if (beats.length === 0) return false;
    const byLease = this.#byLease();
    let isAnyHeld = false;
    for (const beat of beats) {
      const held = byLease.get(leaseKey(beat));
      if (held === undefined) continue;
      if (beat.status === "lost") {
        markLost(held);
        continue;
      }
      if (beat.status === "held") {
        isAnyHeld = true;
        continue;
      }
      // A lost lease is never extended, even while its run has not ended yet.
      if (!held.isLost) {
        held.deadline = sentAt + this.#leaseS;
        held.run.extend(held.deadline);
      }
      if (beat.status === "cancel") held.run.stop("cancel");
    }
    return isAnyHeld;
  }

  markLost(leases: ReadonlySet<string>): void {
    if (leases.size === 0) return;
    const byLease = this.#byLease();
    for (const lease of leases) {
      const held = byLease.get(lease);
      if (held !== undefined) markLost(held);
    }
  }

  /**
   * Stop jobs whose lease may belong to another worker by now. If the database is unreachable, the
   * stop is not the job's fault: the worker releases the job once the database is reachable, and
   * the attempt does not count.
   */
  stopOverdue(): void {
    if (this.#held.size === 0) return;
    resync();
    const moment = now();
    for (const held of [...this.#held.values()]) {
      if (held.deadline <= moment) markLost(held, this.isUnanswered ? "expired" : "lost");
    }
  }

  stopAll(why: StopReason): void {
    for (const run of this.runs) run.stop(why);
  }

  /** Return the seconds until the first lease expires. */
  nextDeadlineS(): number {
    let first = Number.POSITIVE_INFINITY;
    for (const held of this.#held.values()) first = Math.min(first, held.deadline);
    return Math.max(0, first - now());
  }

  #byLease(): Map<string, HeldLease> {
    const entries = [...this.#held.values()].map((held) => [leaseKey(held.run.job), held] as const);
    return new Map(entries);
  }
}

function markLost(held: HeldLease, why: StopReason = "lost"): void {
  held.isLost = true;
  held.deadline = Number.POSITIVE_INFINITY;
  held.run.stop(why);
}
