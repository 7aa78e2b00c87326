/** The running job whose code calls the SDK, and the ambient tenant set by `jf.tenant(…)`. */

import { AsyncLocalStorage } from "node:async_hooks";
import type { ClaimedJob, Enqueued, JobRequest } from "../types/jobs.ts";

/** Enqueues jobs through the worker, from a job's process that has no database. */
export interface JobProcessChannel {
  enqueue(jobs: readonly JobRequest[]): Promise<readonly Enqueued[]>;
}

/** The fields that a job's new jobs inherit. */
export type InheritedFields = Pick<ClaimedJob, "correlation_id" | "traceparent">;

export interface CurrentJob {
  readonly tenantId: string;
  readonly channel: JobProcessChannel | null;
  /** Undefined in a job's process, where the worker adds the fields. */
  readonly origin?: InheritedFields;
}

export const CURRENT_JOB = new AsyncLocalStorage<CurrentJob>();
export const AMBIENT_TENANT = new AsyncLocalStorage<string>();

/** Return the jobs with the running job's correlation ID and trace, unless they set their own. */
export function inheritFields(origin: InheritedFields, jobs: readonly JobRequest[]): JobRequest[] {
  return jobs.map((request) => ({
    ...request,
    correlation_id: request.correlation_id ?? origin.correlation_id ?? undefined,
    traceparent: request.traceparent ?? origin.traceparent ?? undefined,
  }));
}
