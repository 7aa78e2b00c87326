/**
 * The interface between the worker and its runners. The worker claims jobs, extends their leases,
 * and settles outcomes. A Runner turns one claimed job into one Report, and uses JobServices for
 * requests of the job. The worker enforces timeouts and leases by calling `stop` and `extend`.
 */

import type { Runnable } from "../sdk/definition.ts";
import type { StopReason, Verdict } from "../sdk/verdict.ts";
import type {
  ClaimedJob,
  Enqueued,
  JobRequest,
  Json,
  JsonObject,
  NoteKind,
} from "../types/jobs.ts";

/**
 * How a run ended. Everything except the result is redacted. The verdict is null if the lease was
 * lost: nothing is settled then.
 */
export interface Report {
  readonly verdict: Verdict | null;
  readonly exit_code?: number | undefined;
  readonly pid?: number | undefined;
  readonly peak_memory_bytes?: number | undefined;
  readonly cpu_ms?: number | undefined;
  readonly stdout_tail?: string | undefined;
  readonly stderr_tail?: string | undefined;
}

/** Called once for each job that runs. */
export type OnEnd = (job: ClaimedJob, report: Report) => void;

export const SUCCEEDED: Report = { verdict: { outcome: "succeeded" } };
export const RELEASED: Report = { verdict: { outcome: "released" } };

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

/** What the worker offers to running jobs. */
export interface JobServices {
  readonly workerId: string;
  /**
   * Store a note with the next batch. Of several progress reports of a job, only the latest is
   * stored.
   */
  note(job: ClaimedJob, kind: NoteKind, data: JsonObject): void;
  /** Enqueue jobs for the job's tenant. They inherit its correlation ID and trace. */
  enqueue(job: ClaimedJob, jobs: readonly JobRequest[]): Promise<readonly Enqueued[]>;
  /** Resolves when the step is stored. Rejects with LeaseLost or InvalidResult. */
  saveStep(job: ClaimedJob, name: string, index: number, result: Json): Promise<void>;
  /** Enqueue jobs as a step: stored together with the step, or not at all. */
  enqueueChildren(
    job: ClaimedJob,
    name: string,
    index: number,
    jobs: readonly JobRequest[],
  ): Promise<readonly Enqueued[]>;
  /** Return a secret and redact it in logs from now on. Throws NotFound. */
  secret(name: string): string;
}
