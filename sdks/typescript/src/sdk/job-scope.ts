/** The tenant of the job that the code now running belongs to, and one that was set around it. */

import { AsyncLocalStorage } from "node:async_hooks";
import type { ClaimedJob, Enqueued, JobRequest } from "../types/jobs.ts";

/** How a job that runs somewhere without a database enqueues others: through its worker. */
export interface JobProcessChannel {
  enqueue(jobs: readonly JobRequest[]): Promise<readonly Enqueued[]>;
}

/** What a job hands on to those that it makes. */
export type InheritedFields = Pick<ClaimedJob, "correlation_id" | "traceparent">;

export interface CurrentJob {
  readonly tenantId: string;
  readonly channel: JobProcessChannel | null;
  /** None where its worker sees to that. */
  readonly origin?: InheritedFields;
}

export const CURRENT_JOB = new AsyncLocalStorage<CurrentJob>();
export const AMBIENT_TENANT = new AsyncLocalStorage<string>();

/** What ties the jobs that a job makes to it, where they say nothing else. */
export function inheritFields(origin: InheritedFields, jobs: readonly JobRequest[]): JobRequest[] {
  return jobs.map((request) => ({
    ...request,
    correlation_id: request.correlation_id ?? origin.correlation_id ?? undefined,
    traceparent: request.traceparent ?? origin.traceparent ?? undefined,
  }));
}
