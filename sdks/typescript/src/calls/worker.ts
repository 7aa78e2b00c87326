/** Calls of workers, across all tenants: register, claim, extend leases, and settle. */

import { JobForgeError } from "../errors.ts";
import {
  type Beat,
  ClaimedJob,
  type Enqueued,
  type Heartbeat,
  type JobRequest,
  type Json,
  type JsonObject,
  type Lease,
  leaseKey,
  type Note,
  type OutcomeReport,
  type SaveStatus,
  type Settled,
  type Step,
  type Token,
  type WorkerCommand,
} from "../types/jobs.ts";
import { replaceUnencodable } from "../types/jsonb.ts";
import { type Call, JsonArgument } from "./call.ts";
import { ENQUEUED_JOBS, many, mapResult, NOTHING, type Result } from "./results.ts";

// SQLSTATEs of a claim whose rows, as text, exceed 1 GB or the server's memory.
const PROGRAM_LIMIT_EXCEEDED = "54000";
const OUT_OF_MEMORY = "53200";

// Written out, because a worker claims each job: its columns are read without a step through JSON.
const CLAIM = `select tenant_id, job_id, lease, definition, version, queue, attempt, max_attempts,
       timeout_s, started_at, correlation_id, traceparent, idempotency_key,
       to_json(tags), payload::text,
       case when flags & 4 = 4
            then jobforge.load_steps($1::uuid, tenant_id, job_id, lease)::text end
  from jobforge.`;
const CLAIM_ARGUMENTS = "($1::uuid, $2::text[], $3::integer[], null, null, $4::float8, true)";

export interface WorkerRegistration {
  readonly worker_id: string;
  readonly queues: readonly string[];
  readonly slots: number;
  readonly definitions: readonly string[];
  readonly host: string;
  readonly pid: number;
  readonly build: string | null;
  readonly lease_s: number;
}

export function registerWorker(worker: WorkerRegistration): Call<void> {
  return { function: "register_worker", arguments: { ...worker }, result: NOTHING };
}

export function unregisterWorker(workerId: string): Call<void> {
  return { function: "unregister_worker", arguments: { worker_id: workerId }, result: NOTHING };
}

export function putDefinition(key: string, version: number, settings: JsonObject): Call<void> {
  return {
    function: "put_definition",
    arguments: { key, version, settings: JsonArgument.of(settings, "settings") },
    result: NOTHING,
  };
}

export function ensurePartitions(): Call<void> {
  return { function: "ensure_partitions", arguments: {}, result: NOTHING };
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
    function: "claim_jobs",
    arguments: {
      worker_id: workerId,
      queues: [...limits.keys()],
      limits: toArray([...limits.values()]),
      lease_s: leaseS,
    },
    result: { hasRows: true, read: (rows) => rows.map((row) => new ClaimedJob(row)) },
    statement: `${CLAIM}claim_jobs${CLAIM_ARGUMENTS}`,
  };
}

/**
 * Return the same claim for readable jobs only. A job whose payload cannot be sent becomes dead and
 * is not returned.
 */
export function claimReadableJobs(claim: Call<ClaimedJob[]>): Call<ClaimedJob[]> {
  const statement = `${CLAIM}claim_readable_jobs${CLAIM_ARGUMENTS}`;
  return { ...claim, function: "claim_readable_jobs", statement };
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
    function: "heartbeat_jobs",
    arguments: {
      worker_id: workerId,
      jobs: new JsonArgument(JSON.stringify(tokens.map(toToken))),
      lease_s: leaseS,
      memory_bytes: process.memoryUsage.rss(),
      clock: new Date().toISOString(),
    },
    result: HEARTBEAT,
  };
}

/**
 * Settle outcomes. An invalid report does not fail the others: its job is settled as failed, with
 * the reason. For a `busy` job, extend its lease and send the outcome again soon.
 */
export function completeJobs(workerId: string, reports: readonly OutcomeReport[]): Call<Settled[]> {
  return {
    function: "complete_jobs",
    arguments: {
      worker_id: workerId,
      outcomes: new JsonArgument(JSON.stringify(reports.map(toStorable))),
    },
    result: many(),
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
    function: "succeed_jobs",
    arguments: {
      worker_id: workerId,
      tenants: toArray(tokens.map((token) => token.tenant_id)),
      jobs: toArray(tokens.map((token) => token.job_id)),
      leases: toArray(tokens.map((token) => token.lease)),
      results: results?.map((each) => (each == null ? null : JSON.stringify(each))) ?? null,
    },
    result: mapResult(many<Lease>(), (rows) => new Set(rows.map(leaseKey))),
  };
}

/** Store notes in the given order. Return the lost leases. */
export function noteJobs(workerId: string, notes: readonly Note[]): Call<ReadonlySet<string>> {
  const storable = notes.map((note) => ({ ...note, data: replaceUnencodable(note.data) }));
  return {
    function: "note_jobs",
    arguments: { worker_id: workerId, notes: new JsonArgument(JSON.stringify(storable)) },
    result: mapResult(
      many<Beat>(),
      (rows) => new Set(rows.filter(({ status }) => status === "lost").map(leaseKey)),
    ),
  };
}

/** Store steps. Return one status for each step, in the given order. */
export function saveSteps(workerId: string, steps: readonly Step[]): Call<SaveStatus[]> {
  return {
    function: "save_steps",
    arguments: { worker_id: workerId, steps: JsonArgument.of(steps, "steps") },
    result: mapResult(many<StepKey & { readonly status: SaveStatus }>(), (rows) => {
      const statuses = new Map(rows.map((row) => [stepKey(row), row.status] as const));
      return steps.map((step) => statuses.get(stepKey(step)) ?? "lost");
    }),
  };
}

/** Enqueue jobs as a step of a running job. A repeated call enqueues nothing. */
export function enqueueChildren(
  workerId: string,
  { job_id, lease }: Lease,
  name: string,
  index: number,
  jobs: readonly JobRequest[],
): Call<Enqueued[]> {
  return {
    function: "enqueue_children",
    arguments: {
      ...{ worker_id: workerId, job_id, lease, name, index },
      jobs: JsonArgument.of(jobs, "payload"),
    },
    result: ENQUEUED_JOBS,
  };
}

/** Return the number of leases that were ended. */
export function reapJobs(limit: number): Call<number> {
  return { function: "reap_jobs", arguments: { limit }, result: COUNT };
}

/** Advance one due bulk operation by one step. Return the number of operations that were due. */
export function advanceOperations(): Call<number> {
  return { function: "advance_operations", arguments: {}, result: COUNT };
}

type StepKey = Pick<Step, "job_id" | "lease" | "name" | "index">;

function stepKey({ job_id, lease, name, index }: StepKey): string {
  return `${job_id} ${lease} ${name} ${index}`;
}

/** Return a literal of elements that need no quotes. */
function toArray(elements: readonly (string | number)[]): string {
  return `{${elements.join(",")}}`;
}

function toToken({ tenant_id, job_id, lease }: Token): Token {
  return { tenant_id, job_id, lease };
}

/** Replace what jsonb cannot store in the report of a failure. Results were validated before. */
function toStorable(report: OutcomeReport): OutcomeReport {
  if (report.outcome === "succeeded") return report;
  return replaceUnencodable(report) as unknown as OutcomeReport;
}

const COUNT: Result<number> = { hasRows: true, read: (rows) => rows.length };

/** The row without a job has the command to the worker. */
const HEARTBEAT: Result<Heartbeat> = mapResult(
  many<Beat | { readonly job_id: null; readonly status: WorkerCommand }>(),
  (rows) => ({
    command: rows.find((row) => row.job_id === null)?.status ?? "ok",
    jobs: rows.filter((row) => row.job_id !== null),
  }),
);
