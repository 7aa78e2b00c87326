/** Calls of workers, across all tenants: register, claim, extend leases, and settle. */

import { JobForgeError } from "../errors.ts";
import {
  type Beat,
  ClaimedJob,
  type Enqueued,
  type EnqueueStatus,
  type Heartbeat,
  type JobRequest,
  type Json,
  type JsonObject,
  type Note,
  type OutcomeReport,
  type SaveStatus,
  type Settled,
  type SettleStatus,
  type State,
  type Step,
  type Token,
  type WorkerCommand,
} from "../types/jobs.ts";
import { encode, replaceUnencodable } from "../types/jsonb.ts";
import { type Call, decodeNothing, documentArray, type Row, textArray } from "./call.ts";

// SQLSTATEs of a claim whose rows, as text, exceed 1 GB or the server's memory.
const PROGRAM_LIMIT_EXCEEDED = "54000";
const OUT_OF_MEMORY = "53200";

export interface WorkerRegistration {
  readonly workerId: string;
  readonly queues: readonly string[];
  readonly slots: number;
  readonly definitions: readonly string[];
  readonly host: string;
  readonly pid: number;
  readonly build: string | null;
}

export function registerWorker(worker: WorkerRegistration): Call<void> {
  return {
    name: "register_worker",
    text: `select jobforge.register_worker(
    $1::uuid, $2::text[], $3::integer, $4::text[], $5::text, $6::integer, $7::text)`,
    values: [
      worker.workerId,
      textArray(worker.queues),
      worker.slots,
      textArray(worker.definitions),
      worker.host,
      worker.pid,
      worker.build,
    ],
    decode: decodeNothing,
  };
}

export function unregisterWorker(workerId: string): Call<void> {
  return {
    name: "unregister_worker",
    text: "select jobforge.unregister_worker($1::uuid)",
    values: [workerId],
    decode: decodeNothing,
  };
}

export function putDefinition(key: string, version: number, settings: JsonObject): Call<void> {
  return {
    name: "put_definition",
    text: "select jobforge.put_definition($1::text, $2::integer, $3::jsonb)",
    values: [key, version, encode(settings, "settings")],
    decode: decodeNothing,
  };
}

export function ensurePartitions(): Call<void> {
  return {
    name: "ensure_partitions",
    text: "select jobforge.ensure_partitions()",
    values: [],
    decode: decodeNothing,
  };
}

/**
 * Claim jobs. `limits` has the number of jobs to claim from each queue. The worker serves the
 * definitions of its registration.
 */
export function claimJobs(
  workerId: string,
  limits: ReadonlyMap<string, number>,
  leaseS: number,
): Call<ClaimedJob[]> {
  return {
    name: "claim_jobs",
    text: `select tenant_id, job_id, lease, definition, version, queue, attempt, max_attempts,
       timeout_s, started_at, correlation_id, traceparent, idempotency_key,
       to_json(tags), payload::text,
       case when flags & 4 = 4
            then jobforge.load_steps($1::uuid, tenant_id, job_id, lease)::text end
  from jobforge.claim_jobs($1::uuid, $2::text[], $3::integer[], null, null, $4::float8, true)`,
    values: [
      workerId,
      textArray([...limits.keys()]),
      `{${[...limits.values()].join(",")}}`,
      leaseS,
    ],
    decode: (rows) => rows.map((row) => new ClaimedJob(row)),
  };
}

/**
 * Return the same claim for readable jobs only. A job whose payload cannot be sent becomes dead and
 * is not returned.
 */
export function claimReadableJobs(claim: Call<ClaimedJob[]>): Call<ClaimedJob[]> {
  return {
    ...claim,
    name: "claim_readable_jobs",
    text: claim.text.replace("jobforge.claim_jobs(", "jobforge.claim_readable_jobs("),
  };
}

/** Whether a claim failed because Postgres could not write one of its rows as text. */
export function isUnreadable(error: unknown): boolean {
  if (!(error instanceof JobForgeError)) return false;
  const state = error.detail.sqlstate;
  return state === PROGRAM_LIMIT_EXCEEDED || state === OUT_OF_MEMORY;
}

/** Also report this process's resident memory and the time by its clock. */
export function heartbeatJobs(
  workerId: string,
  tokens: readonly Token[],
  leaseS: number,
): Call<Heartbeat> {
  return {
    name: "heartbeat_jobs",
    text: `select job_id, lease, status
  from jobforge.heartbeat_jobs($1::uuid, $2::jsonb, $3::float8, $4::bigint, $5::timestamptz)`,
    values: [
      ...[workerId, JSON.stringify(tokens.map(toToken)), leaseS],
      ...[process.memoryUsage.rss(), new Date().toISOString()],
    ],
    decode: decodeHeartbeat,
  };
}

/**
 * Settle outcomes. An invalid report does not fail the others: its job is settled as failed, with
 * the reason. For a `busy` job, extend its lease and send the outcome again soon.
 */
export function completeJobs(workerId: string, reports: readonly OutcomeReport[]): Call<Settled[]> {
  return {
    name: "complete_jobs",
    text: "select job_id, lease, status, state from jobforge.complete_jobs($1::uuid, $2::jsonb)",
    values: [workerId, JSON.stringify(reports.map(toStorable))],
    decode: (rows) => rows.map(decodeSettled),
  };
}

/**
 * Settle successes. Return the leases that were not settled; complete_jobs returns the status of
 * each.
 */
export function succeedJobs(
  workerId: string,
  tokens: readonly Token[],
  results: readonly (Json | undefined)[] | null,
): Call<ReadonlySet<string>> {
  return {
    name: "succeed_jobs",
    text: `select job_id, lease
  from jobforge.succeed_jobs($1::uuid, $2::uuid[], $3::uuid[], $4::bigint[], $5::jsonb[])`,
    values: [
      workerId,
      `{${tokens.map((token) => token.tenant_id).join(",")}}`,
      `{${tokens.map((token) => token.job_id).join(",")}}`,
      `{${tokens.map((token) => token.lease).join(",")}}`,
      results === null ? null : documentArray(results),
    ],
    decode: (rows) => new Set(rows.map(([jobId, lease]) => `${jobId}.${lease}`)),
  };
}

/** Store notes in the given order. Return the lost leases. */
export function noteJobs(workerId: string, notes: readonly Note[]): Call<ReadonlySet<string>> {
  return {
    name: "note_jobs",
    text: "select job_id, lease, status from jobforge.note_jobs($1::uuid, $2::jsonb)",
    values: [
      workerId,
      JSON.stringify(notes.map((note) => ({ ...note, data: replaceUnencodable(note.data) }))),
    ],
    decode: (rows) =>
      new Set(rows.filter((row) => row[2] === "lost").map(([jobId, lease]) => `${jobId}.${lease}`)),
  };
}

/** Store steps. Return one status for each step, in the given order. */
export function saveSteps(workerId: string, steps: readonly Step[]): Call<SaveStatus[]> {
  return {
    name: "save_steps",
    text: `select job_id, lease, name, index, status
  from jobforge.save_steps($1::uuid, $2::jsonb)`,
    values: [workerId, encode(steps, "steps")],
    decode: (rows) => {
      const found = new Map(rows.map((row) => [row.slice(0, 4).join(" "), row[4]] as const));
      return steps.map(
        ({ job_id, lease, name, index }) =>
          (found.get(`${job_id} ${lease} ${name} ${index}`) ?? "lost") as SaveStatus,
      );
    },
  };
}

/** Enqueue jobs as a step of a running job. A repeated call enqueues nothing. */
export function enqueueChildren(
  workerId: string,
  token: Token,
  step: { readonly name: string; readonly index: number; readonly jobs: readonly JobRequest[] },
  tenantId: string | null,
): Call<Enqueued[]> {
  return {
    name: "enqueue_children",
    text: `select job_id, status
  from jobforge.enqueue_children(
           $1::uuid, $2::uuid, $3::bigint, $4::text, $5::integer, $6::jsonb, $7::uuid)
 order by index`,
    values: [
      ...[workerId, token.job_id, token.lease, step.name, step.index],
      ...[encode(step.jobs, "payload"), tenantId],
    ],
    decode: (rows) =>
      rows.map(([job_id, status]) => ({
        job_id: job_id ?? "",
        status: status as EnqueueStatus,
      })),
  };
}

/** Return the number of leases that were ended. */
export function reapJobs(limit: number): Call<number> {
  return {
    name: "reap_jobs",
    text: "select count(*) from jobforge.reap_jobs($1::integer)",
    values: [limit],
    decode: (rows) => Number(rows[0]?.[0]),
  };
}

/** Advance one due bulk operation by one step. Return whether one was due. */
export function advanceOperations(): Call<boolean> {
  return {
    name: "advance_operations",
    text: "select operation_id from jobforge.advance_operations()",
    values: [],
    decode: (rows) => rows.length > 0,
  };
}

function decodeHeartbeat(rows: readonly Row[]): Heartbeat {
  const own = rows.find((row) => row[0] === null);
  const jobs = rows.filter((row) => row[0] !== null);
  return {
    command: (own?.[2] ?? "ok") as WorkerCommand,
    jobs: jobs.map((row) => ({ job_id: row[0], lease: row[1], status: row[2] }) as unknown as Beat),
  };
}

function decodeSettled(row: Row): Settled {
  return {
    job_id: row[0] ?? "",
    lease: row[1] ?? "",
    status: row[2] as SettleStatus,
    state: (row[3] ?? null) as State | null,
  };
}

function toToken(token: Token): Token {
  return { tenant_id: token.tenant_id, job_id: token.job_id, lease: token.lease };
}

/** Replace what jsonb cannot store in the report of a failure. Results were validated before. */
function toStorable(report: OutcomeReport): OutcomeReport {
  if (report.outcome === "succeeded") return report;
  return replaceUnencodable(report) as unknown as OutcomeReport;
}
