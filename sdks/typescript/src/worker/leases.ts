/**
 * The jobs that a worker is running, and until when each is its own. Their leases are extended, and
 * those of jobs that have ended, until they are settled. A deadline is by the worker's
 * own clock and counted from before the request was sent that got or extended the lease, so it never
 * lies after the database's.
 */

import type { StopReason } from "../sdk/verdict.ts";
import type { Beat, ClaimedJob, Token } from "../types/jobs.ts";
import { now, resync } from "./clock.ts";
import type { Run } from "./runner.ts";

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
  /** From when a heartbeat is sent until the database responds. */
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

  /** Extends also the leases of these: jobs that have ended and waited for so long since. */
  setUnsettledSource(ended: (heldForS: number) => readonly Token[]): void {
    this.#unsettledTokens = ended;
  }

  hold(run: Run, deadline: number, timeout: NodeJS.Timeout): void {
    this.#held.set(run.job, { run, since: now(), deadline, timeout, isLost: false });
    run.extend(deadline);
  }

  /** It has ended. Answers for how many seconds it ran; 0 if it ended as it began. */
  drop(job: ClaimedJob): number {
    const held = this.#held.get(job);
    if (held === undefined) return 0;
    this.#held.delete(job);
    clearTimeout(held.timeout);
    return now() - held.since;
  }

  /** Of the jobs that have been running for so long, or have ended and are not settled. */
  tokens(heldForS: number): Token[] {
    const before = now() - heldForS;
    const running = [...this.#held.values()]
      .filter((held) => held.since <= before && !held.isLost)
      .map((held) => held.run.job);
    return [...running, ...this.#unsettledTokens(heldForS)];
  }

  /** Returns whether a lease could not be extended now, so that another heartbeat is due soon. */
  renew(sentAt: number, beats: readonly Beat[]): boolean {
    if (beats.length === 0) return false;
    const byLease = this.#byLease();
    let isAnyHeld = false;
    for (const beat of beats) {
      const held = byLease.get(`${beat.job_id}.${beat.lease}`);
      if (held === undefined) continue;
      if (beat.status === "lost") {
        markLost(held);
        continue;
      }
      if (beat.status === "held") {
        isAnyHeld = true;
        continue;
      }
      // A lease once given up is never extended, even if its run does not end.
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
   * Stops what may be somebody else's by now. In an outage that is not the job's fault. The worker
   * hands it back when the database is reachable again, which does not count as an attempt.
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

  /** How long until the first lease runs out. */
  nextDeadlineS(): number {
    let first = Number.POSITIVE_INFINITY;
    for (const held of this.#held.values()) first = Math.min(first, held.deadline);
    return Math.max(0, first - now());
  }

  #byLease(): Map<string, HeldLease> {
    const entries = [...this.#held.values()].map(
      (held) => [`${held.run.job.job_id}.${held.run.job.lease}`, held] as const,
    );
    return new Map(entries);
  }
}

function markLost(held: HeldLease, why: StopReason = "lost"): void {
  held.isLost = true;
  held.deadline = Number.POSITIVE_INFINITY;
  held.run.stop(why);
}
