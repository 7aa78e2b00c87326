/**
 * The interface between the worker and its runners. The worker claims jobs, extends their leases,
 * and settles outcomes. A Runner turns one claimed job into one Report, and uses JobServices for
 * requests of the job. The worker enforces timeouts and leases by calling `stop` and `extend`.
 */

import type { Runnable } from "../sdk/definition.ts";
import { RELEASED_VERDICT, type StopReason, SUCCEEDED_VERDICT } from "../sdk/verdict.ts";
import type { ClaimedJob, ProcessReport, Verdict } from "../types/jobs.ts";

/**
 * How a run ended. Everything except the result is redacted. The verdict is null if the lease was
 * lost: nothing is settled then.
 */
export interface Report extends ProcessReport {
  readonly verdict: Verdict | null;
}

/** Called once for each job that runs. */
export type OnEnd = (job: ClaimedJob, report: Report) => void;

export const SUCCEEDED: Report = { verdict: SUCCEEDED_VERDICT };
export const RELEASED: Report = { verdict: RELEASED_VERDICT };

/** A job that is running. */
export interface Run {
  readonly job: ClaimedJob;
  /** Whether the report was delivered. */
  readonly hasEnded: boolean;
  /**
   * Stop the run; may be called again. `cancel` and `timeout` grant the grace period, other reasons
   * kill it at once.
   */
  stop(why: StopReason): void;
  /** Set the deadline of the lease, by the worker's clock. */
  extend(deadline: number): void;
}

export interface Runner {
  open(): Promise<void>;
  close(): Promise<void>;
  /**
   * Start the job. A returned report means that the run has already ended; `onEnd` is not called
   * then.
   */
  start(job: ClaimedJob, definition: Runnable, onEnd: OnEnd): Run | Report;
}

export function isReport(started: Run | Report): started is Report {
  return "verdict" in started;
}
