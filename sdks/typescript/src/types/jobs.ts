/** Arguments and results of the engine's functions, as data. */

/** A JSON value. */
export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
/** A JSON object. */
export interface JsonObject {
  readonly [name: string]: Json | undefined;
}

export const FINAL_STATES = ["succeeded", "canceled", "dead"] as const;
/** The states of a finished job. */
export type FinalState = (typeof FINAL_STATES)[number];
/** The state of a job. `canceling` is a running job that was asked to stop. */
export type State = "scheduled" | "blocked" | "queued" | "running" | "canceling" | FinalState;

export const OUTCOMES = [
  "succeeded",
  "failed",
  "timed_out",
  "crashed",
  "canceled",
  "released",
  "snoozed",
] as const;
export type Outcome = (typeof OUTCOMES)[number];

/**
 * The result of an enqueue. `existing`: a job with this key already exists and was not changed.
 * `replaced`: a job with this key existed, had not started, and now has the new arguments.
 */
export type EnqueueStatus = "created" | "existing" | "replaced";

/** A job to be enqueued; docs/sql.md explains each field. */
export interface JobRequest {
  readonly definition: string;
  readonly version?: number | undefined;
  readonly payload?: JsonObject | undefined;
  readonly queue?: string | undefined;
  readonly priority?: number | undefined;
  readonly run_at?: string | undefined;
  readonly delay_s?: number | undefined;
  readonly expires_at?: string | undefined;
  readonly expires_in_s?: number | undefined;
  readonly max_attempts?: number | undefined;
  readonly timeout_s?: number | undefined;
  readonly key?: string | undefined;
  readonly key_mode?: "active" | "window" | undefined;
  readonly key_window_s?: number | undefined;
  readonly on_conflict?: "existing" | "replace" | "raise" | undefined;
  readonly limit_key?: string | undefined;
  readonly tags?: readonly string[] | undefined;
  readonly correlation_id?: string | undefined;
  readonly traceparent?: string | undefined;
  readonly far_future?: boolean | undefined;
}

/** The ID of an enqueued job, and the result of the enqueue. */
export interface Enqueued {
  readonly job_id: string;
  readonly status: EnqueueStatus;
}

/** The lease of a running job. Its number increases with each claim, by the time of the claim. */
export interface Lease {
  readonly job_id: string;
  readonly lease: number;
}

/** Return the lease as a string, which identifies it among all leases. */
export function leaseKey({ job_id, lease }: Lease): string {
  return `${job_id}.${lease}`;
}

/** Proves to the engine, together with the worker's ID, that the worker still holds the job. */
export interface Token extends Lease {
  readonly tenant_id: string;
}

/**
 * A job that this worker holds, with all data that its run needs, from a row of claim_jobs. A class
 * instead of an object literal, because of V8: once most of a literal's first objects have survived
 * a collection, V8 allocates all later ones in the old generation, which would fill with finished
 * jobs.
 */
export class ClaimedJob implements Token {
  readonly tenant_id: string;
  readonly job_id: string;
  readonly lease: number;
  readonly definition: string;
  readonly version: number;
  readonly queue: string;
  readonly attempt: number;
  readonly max_attempts: number;
  readonly timeout_s: number | null;
  /** As Postgres writes a timestamp. */
  readonly started_at: string;
  readonly correlation_id: string | null;
  readonly traceparent: string | null;
  readonly idempotency_key: string | null;
  readonly tags_json: string | null;
  readonly payload_json: string;
  /** The steps that earlier attempts stored; null without any. */
  readonly steps_json: string | null;

  constructor(row: readonly (string | null)[]) {
    this.tenant_id = row[0] ?? "";
    this.job_id = row[1] ?? "";
    this.lease = Number(row[2]);
    this.definition = row[3] ?? "";
    this.version = Number(row[4]);
    this.queue = row[5] ?? "";
    this.attempt = Number(row[6]);
    this.max_attempts = Number(row[7]);
    this.timeout_s = row[8] == null ? null : Number(row[8]);
    this.started_at = row[9] ?? "";
    this.correlation_id = row[10] ?? null;
    this.traceparent = row[11] ?? null;
    this.idempotency_key = row[12] ?? null;
    this.tags_json = row[13] ?? null;
    this.payload_json = row[14] ?? "{}";
    this.steps_json = row[15] ?? null;
  }
}

/** How an attempt ended. The engine decides the state of the job that follows from it. */
export interface Verdict {
  readonly outcome: Outcome;
  readonly result?: Json | undefined;
  readonly error?: JsonObject | undefined;
  readonly reason?: string | undefined;
  readonly final?: boolean | undefined;
  readonly retry_in_s?: number | undefined;
  readonly run_at?: string | undefined;
  /** Set if the job is snoozed to wait: what it waits for. */
  readonly wait?: JsonObject | undefined;
}

/** The process of an attempt, if it was a separate one. */
export interface ProcessReport {
  readonly exit_code?: number | undefined;
  readonly pid?: number | undefined;
  readonly peak_memory_bytes?: number | undefined;
  readonly cpu_ms?: number | undefined;
  readonly stdout_tail?: string | undefined;
  readonly stderr_tail?: string | undefined;
}

/** An ended attempt, for complete_jobs. */
export interface OutcomeReport extends Token, Verdict, ProcessReport {
  readonly started_at: string;
}

export const NOTE_KINDS = ["progress", "log", "event"] as const;
export type NoteKind = (typeof NOTE_KINDS)[number];

/** A progress report, log line or custom event of a running job. */
export interface Note extends Token {
  readonly kind: NoteKind;
  readonly data: JsonObject;
}

/** A completed step of a running job, which later attempts do not run again. */
export interface Step extends Token {
  readonly name: string;
  readonly index: number;
  readonly result: Json;
}

/** `lost`: the lease is not held, and nothing was stored. */
export type SaveStatus = "ok" | "lost" | "too_large" | "too_many";

/** `busy`: another transaction has locked the job, or a row that settling it needs. */
export type SettleStatus = "ok" | "lost" | "busy";

/** The settled state of a job. A repeated report is also `ok`, but without the job's state. */
export interface Settled extends Lease {
  readonly status: SettleStatus;
  readonly state: State | null;
}

/**
 * The engine's response to a heartbeat about the worker itself. `unknown`: the worker has to
 * register again.
 */
export type WorkerCommand = "ok" | "drain" | "stop" | "unknown";

export interface Beat extends Lease {
  /** `held`: another transaction has locked the lease, which was not extended. */
  readonly status: "ok" | "cancel" | "held" | "lost";
}

export interface Heartbeat {
  readonly command: WorkerCommand;
  readonly jobs: readonly Beat[];
}

/** A job in a list, without payload and result. Times are in ISO 8601 format. */
export interface JobListing {
  readonly id: string;
  readonly state: State;
  readonly definition: string;
  readonly version: number;
  readonly queue: string;
  readonly priority: number;
  readonly attempt: number;
  readonly max_attempts: number;
  readonly created_at: string;
  readonly run_at: string;
  readonly queued_at: string | null;
  readonly started_at: string | null;
  readonly finished_at: string | null;
  readonly worker_id: string | null;
  readonly source: string;
  readonly source_ref: string | null;
  readonly correlation_id: string | null;
  readonly idempotency_key: string | null;
  readonly tags: readonly string[] | null;
  readonly fingerprint: string | null;
  readonly error: JsonObject | null;
  readonly retry_of: string | null;
  readonly created_by: string | null;
}

/** A job with its payload and result. */
export interface Job extends JobListing {
  readonly tenant_id: string;
  readonly traceparent: string | null;
  readonly cancel_reason: string | null;
  readonly payload: JsonObject;
  readonly result: Json;
}

/** A job with its attempts and its timeline. */
export interface History {
  readonly job: Job;
  readonly attempts: readonly JsonObject[];
  readonly events: readonly JsonObject[];
}

/** A log line, a progress update or an event that a job has written. */
export interface JobEvent {
  readonly at: string;
  readonly kind: string;
  readonly actor: string | null;
  readonly data: Json;
}

/** A reason why a job is not running. */
export interface Explanation {
  readonly code: string;
  readonly message: string;
  /** How to start the job, if an action is necessary. */
  readonly remedy: string | null;
  readonly detail: Json;
}

/** Which part of a list to return. */
export interface Page {
  /** Maximum number of jobs. */
  readonly limit?: number;
  /** The last ID of the previous page. */
  readonly before?: string;
}

/** Which jobs `listJobs` returns: those that match all given fields. */
export interface JobFilter {
  /** One of these states. */
  readonly state?: string | readonly string[];
  /** Key of the definition. */
  readonly definition?: string;
  readonly queue?: string;
  readonly tag?: string;
  /** What created the job, such as `api` or a schedule. */
  readonly source?: string;
  /** Idempotency key. */
  readonly key?: string;
  readonly correlation_id?: string;
  /** Fingerprint of a failure group. */
  readonly fingerprint?: string;
  /** Times in ISO 8601 format. */
  readonly created_after?: string;
  readonly created_before?: string;
}
