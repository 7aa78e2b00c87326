/** Calls on a tenant's jobs, for applications. */

import type {
  Enqueued,
  Explanation,
  History,
  JobEvent,
  JobFilter,
  JobListing,
  JobRequest,
  JsonObject,
  Page,
  State,
  Token,
} from "../types/jobs.ts";
import { type Call, JsonArgument } from "./call.ts";
import { ENQUEUED_JOBS, many, mapResult, value } from "./results.ts";

export function enqueueJob(job: JobRequest): Call<Enqueued[]> {
  const { definition, payload = {}, ...options } = job;
  return {
    function: "enqueue_job",
    arguments: {
      definition,
      payload: JsonArgument.of(payload, "payload"),
      options: JsonArgument.of(options, "options"),
    },
    result: many(),
    isFrequent: true,
  };
}

/** Enqueue all jobs or none. The results are in the order of the jobs. */
export function enqueueJobs(jobs: readonly JobRequest[]): Call<Enqueued[]> {
  return {
    function: "enqueue_jobs",
    arguments: { jobs: JsonArgument.of(jobs, "payload") },
    result: ENQUEUED_JOBS,
  };
}

/** Like enqueueJobs, for jobs that differ only in their payloads (areUniform). */
export function enqueuePayloads(jobs: readonly [JobRequest, ...JobRequest[]]): Call<Enqueued[]> {
  const { definition, payload: _, ...options } = jobs[0];
  const payloads = jobs.map((job) => job.payload ?? {});
  return {
    function: "enqueue_payloads",
    arguments: {
      definition,
      payloads: JsonArgument.of(payloads, "payload"),
      options: JsonArgument.of(options, "options"),
    },
    result: mapResult(value(), (first) =>
      jobs.map((_job, n) => ({ job_id: computeNthId(first, n), status: "created" })),
    ),
  };
}

/**
 * Whether the jobs differ only in their payloads and none has an idempotency key, which is unique
 * per job.
 */
export function areUniform(
  jobs: readonly JobRequest[],
): jobs is readonly [JobRequest, ...JobRequest[]] {
  const [first] = jobs;
  if (first === undefined || first.key !== undefined) return false;
  const names = Object.keys({ ...first, payload: {} }) as (keyof JobRequest)[];
  return jobs.every(
    (job) =>
      Object.keys(job).length === names.length &&
      names.every((name) => name === "payload" || job[name] === first[name]),
  );
}

/**
 * Return the ID of the nth job of a batch: batch IDs are consecutive in their last eight digits.
 */
function computeNthId(first: string, n: number): string {
  const digits = Number.parseInt(first.slice(28), 16) + n;
  return first.slice(0, 28) + digits.toString(16).padStart(8, "0");
}

export function getJob(jobId: string): Call<History> {
  return {
    function: "get_job",
    arguments: { job_id: jobId },
    result: mapResult(many<History>(), ([history]) => history as History),
  };
}

/** Return jobs, newest first. `before` is the last ID of the previous page. */
export function listJobs(which: JobFilter, page: Page): Call<JobListing[]> {
  return {
    function: "list_jobs",
    arguments: {
      filter: JsonArgument.of(which, "filter"),
      limit: page.limit ?? 50,
      before: page.before ?? null,
    },
    result: many(),
  };
}

export function cancelJob(jobId: string, reason: string | null): Call<State> {
  return { function: "cancel_job", arguments: { job_id: jobId, reason }, result: value() };
}

/** Return the ID of the job that will run. */
export function retryJob(
  jobId: string,
  payload: JsonObject | null,
  attempts: number | null,
): Call<string> {
  return {
    function: "retry_job",
    arguments: {
      job_id: jobId,
      payload: payload === null ? null : JsonArgument.of(payload, "payload"),
      attempts,
    },
    result: value(),
  };
}

/** Change when a waiting job runs; null means as soon as possible. */
export function rescheduleJob(jobId: string, runAt: string | null): Call<State> {
  return {
    function: "reschedule_job",
    arguments: { job_id: jobId, run_at: runAt },
    result: value(),
  };
}

/** Return log lines, oldest first. `after` is the time of the last line of the previous page. */
export function listLogs(jobId: string, after: string | null, limit: number): Call<JobEvent[]> {
  return {
    function: "list_notes",
    arguments: { job_id: jobId, after, kinds: ["log"], limit },
    result: many(),
  };
}

export function explainJob(jobId: string): Call<Explanation[]> {
  return { function: "explain_job", arguments: { job_id: jobId }, result: many() };
}

export function findTenant(slug: string): Call<string> {
  return { function: "find_tenant", arguments: { slug }, result: value() };
}

/**
 * Complete a running job in the caller's own transaction. Throws LeaseLost if the lease is not
 * held.
 */
export function completeJob(
  { tenant_id, job_id, lease }: Token,
  workerId: string,
  outcome: JsonObject,
): Call<State | null> {
  return {
    function: "complete_job",
    arguments: {
      ...{ tenant_id, job_id, worker_id: workerId, lease },
      outcome: JsonArgument.of(outcome, "result"),
    },
    result: value(),
  };
}
