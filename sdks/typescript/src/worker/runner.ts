/**
 * The words between the worker and whatever runs its jobs. The worker claims, keeps leases and
 * settles. A Runner turns one claimed job into one Report, and asks its Host for what a job may have
 * of the worker. Timeouts and leases are the worker's: it calls `stop` and `extend`.
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

/** How a run ended, without secrets, but for the result. Without a verdict there is nothing to report: the lease is gone. */
export interface Report {
  readonly verdict: Verdict | null;
  readonly exit_code?: number | undefined;
  readonly pid?: number | undefined;
  readonly peak_memory_bytes?: number | undefined;
  readonly cpu_ms?: number | undefined;
  readonly stdout_tail?: string | undefined;
  readonly stderr_tail?: string | undefined;
}

/** Called once for every job that runs. */
export type OnEnd = (job: ClaimedJob, report: Report) => void;

export const SUCCEEDED: Report = { verdict: { outcome: "succeeded" } };
export const RELEASED: Report = { verdict: { outcome: "released" } };

/** A job that is running. */
export interface Run {
  readonly job: ClaimedJob;
  /** Whether its report was given. */
  readonly hasEnded: boolean;
  /** May be called again. `cancel` and `timeout` leave it its grace, the others none. */
  stop(why: StopReason): void;
  /** The lease ends then, by the worker's clock, unless it is extended again. */
  extend(deadline: number): void;
}

export interface Runner {
  open(): Promise<void>;
  close(): Promise<void>;
  /** A report: it has ended already, and `onEnd` will not be called. */
  start(job: ClaimedJob, definition: Runnable, onEnd: OnEnd): Run | Report;
}

export function isReport(started: Run | Report): started is Report {
  return "verdict" in started;
}

/** What the worker does for running jobs. */
export interface JobServices {
  readonly workerId: string;
  /** Kept for the next batch. Of a job's progress only the latest is. */
  note(job: ClaimedJob, kind: NoteKind, data: JsonObject): void;
  /** For the tenant of the job; its correlation flows on. */
  enqueue(job: ClaimedJob, jobs: readonly JobRequest[]): Promise<readonly Enqueued[]>;
  /** Resolves when it is stored. LeaseLost, InvalidResult. */
  saveStep(job: ClaimedJob, name: string, index: number, result: Json): Promise<void>;
  /** Jobs that are made with a step, or not at all; otherwise as `enqueue`. */
  enqueueChildren(
    job: ClaimedJob,
    name: string,
    index: number,
    jobs: readonly JobRequest[],
  ): Promise<readonly Enqueued[]>;
  /** Throws NotFound. From now on the value is hidden in logs. */
  secret(name: string): string;
}
