/** The tenant of the job that the code now running belongs to, and one that was set around it. */

import { AsyncLocalStorage } from "node:async_hooks";
import type { ClaimedJob, Enqueued, JobRequest } from "../types/jobs.ts";

/** How a job that runs somewhere without a database enqueues others: through its worker. */
export interface Door {
  enqueue(jobs: readonly JobRequest[]): Promise<readonly Enqueued[]>;
}

/** What a job hands on to those that it makes. */
export type Origin = Pick<ClaimedJob, "correlation_id" | "traceparent">;

export interface Current {
  readonly tenantId: string;
  readonly door: Door | null;
  /** None where its worker sees to that. */
  readonly origin?: Origin;
}

export const CURRENT = new AsyncLocalStorage<Current>();
export const AMBIENT = new AsyncLocalStorage<string>();

/** What ties the jobs that a job makes to it, where they say nothing else. */
export function flowing(origin: Origin, jobs: readonly JobRequest[]): JobRequest[] {
  return jobs.map((request) => ({
    ...request,
    correlation_id: request.correlation_id ?? origin.correlation_id ?? undefined,
    traceparent: request.traceparent ?? origin.traceparent ?? undefined,
  }));
}
