/**
 * Calls on a tenant's jobs, for applications. Each returns one string column, `answer`, which all
 * drivers read in the same way. JSON arguments are sent as text, because postgres.js would encode a
 * jsonb argument a second time.
 */

import type {
  Enqueued,
  Job,
  JobFilter,
  JobListing,
  JobRequest,
  Json,
  JsonObject,
  State,
} from "../types/jobs.ts";
import { encode } from "../types/jsonb.ts";
import { type Call, decodeDocuments, decodeValue, decodeValueOrNull } from "./call.ts";

export function enqueueJob(job: JobRequest, tenantId: string | null): Call<Enqueued[]> {
  const { definition, payload = {}, ...options } = job;
  return {
    name: "enqueue_job",
    text: `select json_build_array(json_build_object('job_id', e.job_id, 'status', e.status))::text as answer
  from jobforge.enqueue_job($1::text, $2::text::jsonb, $3::text::jsonb, $4::uuid) as e`,
    values: [definition, encode(payload, "payload"), encode(options, "options"), tenantId],
    decode: decodeDocuments<Enqueued>,
    isFrequent: true,
  };
}

/** Enqueue all jobs or none. The results are in the order of the jobs. */
export function enqueueJobs(
  jobs: readonly JobRequest[],
  tenantId: string | null,
): Call<Enqueued[]> {
  return {
    name: "enqueue_jobs",
    text: `select coalesce(json_agg(json_build_object('job_id', e.job_id, 'status', e.status)
                          order by e.index), '[]')::text as answer
  from jobforge.enqueue_jobs($1::text::jsonb, $2::uuid) as e`,
    values: [encode(jobs, "payload"), tenantId],
    decode: decodeDocuments<Enqueued>,
  };
}

/** Like enqueueJobs, for jobs that differ only in their payloads (areUniform). */
export function enqueueAlike(
  jobs: readonly [JobRequest, ...JobRequest[]],
  tenantId: string | null,
): Call<Enqueued[]> {
  const { definition, payload: _, ...options } = jobs[0];
  const payloads = jobs.map((job) => job.payload ?? {});
  return {
    name: "enqueue_payloads",
    text: `select jobforge.enqueue_payloads($1::text, $2::text::jsonb, $3::text::jsonb, $4::uuid)::text as answer`,
    values: [definition, encode(payloads, "payload"), encode(options, "options"), tenantId],
    decode: (rows) => {
      const first = decodeValue(rows) as string;
      return jobs.map((_job, n) => ({ job_id: computeNthId(first, n), status: "created" }));
    },
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

/** A job with its attempts and its timeline. */
export interface History {
  readonly job: Job;
  readonly attempts: readonly JsonObject[];
  readonly events: readonly JsonObject[];
}

export function getJob(jobId: string, tenantId: string | null): Call<History> {
  return {
    name: "get_job",
    text: `select json_build_array(row_to_json(g))::text as answer
  from jobforge.get_job($1::uuid, $2::uuid) as g`,
    values: [jobId, tenantId],
    decode: (rows) => decodeDocuments<History>(rows)[0] as History,
  };
}

/** Which part of a list to return. */
export interface Page {
  /** Maximum number of jobs. */
  readonly limit?: number;
  /** The last ID of the previous page. */
  readonly before?: string;
}

/** Return jobs, newest first. `before` is the last ID of the previous page. */
export function listJobs(
  which: JobFilter,
  page: Page,
  tenantId: string | null,
): Call<JobListing[]> {
  return {
    name: "list_jobs",
    text: `select coalesce(json_agg(row_to_json(l)), '[]')::text as answer
  from jobforge.list_jobs($1::text::jsonb, $2::integer, $3::uuid, $4::uuid) as l`,
    values: [encode(which, "filter"), page.limit ?? 50, page.before ?? null, tenantId],
    decode: decodeDocuments<JobListing>,
  };
}

export function cancelJob(
  jobId: string,
  reason: string | null,
  tenantId: string | null,
): Call<State> {
  return {
    name: "cancel_job",
    text: "select jobforge.cancel_job($1::uuid, $2::text, $3::uuid) as answer",
    values: [jobId, reason, tenantId],
    decode: (rows) => decodeValue(rows) as State,
  };
}

/** Return the ID of the job that will run. */
export function retryJob(
  jobId: string,
  payload: JsonObject | null,
  attempts: number | null,
  tenantId: string | null,
): Call<string> {
  return {
    name: "retry_job",
    text: "select jobforge.retry_job($1::uuid, $2::text::jsonb, $3::integer, $4::uuid)::text as answer",
    values: [jobId, payload === null ? null : encode(payload, "payload"), attempts, tenantId],
    decode: decodeValue,
  };
}

/** A reason why a job is not running. */
export interface Explanation {
  readonly code: string;
  readonly message: string;
  /** How to start the job, if an action is necessary. */
  readonly remedy: string | null;
  readonly detail: Json;
}

export function explainJob(jobId: string, tenantId: string | null): Call<Explanation[]> {
  return {
    name: "explain_job",
    text: `select coalesce(json_agg(row_to_json(e)), '[]')::text as answer
  from jobforge.explain_job($1::uuid, $2::uuid) as e`,
    values: [jobId, tenantId],
    decode: decodeDocuments<Explanation>,
  };
}

export function findTenant(slug: string): Call<string> {
  return {
    name: "find_tenant",
    text: "select jobforge.find_tenant($1::text)::text as answer",
    values: [slug],
    decode: decodeValue,
  };
}

/**
 * Complete a running job in the caller's own transaction. Throws LeaseLost if the lease is not
 * held.
 */
export function completeJob(
  token: { readonly tenant_id: string; readonly job_id: string; readonly lease: string },
  workerId: string,
  outcome: JsonObject,
): Call<string | null> {
  return {
    name: "complete_job",
    text: "select jobforge.complete_job($1::uuid, $2::uuid, $3::uuid, $4::bigint, $5::text::jsonb) as answer",
    values: [token.tenant_id, token.job_id, workerId, token.lease, encode(outcome, "result")],
    decode: decodeValueOrNull,
  };
}
