/**
 * The context of a running job, `ctx`: its fields, progress, events, logs and secrets. A JobChannel
 * carries its messages to the worker. Steps and waits are in durable.ts.
 */

import * as calls from "../calls/index.ts";
import { type Queryable, runOn } from "../db/queryable.ts";
import { Invalid, InvalidResult } from "../errors.ts";
import { jobScope, type RedactionScope, redactHead } from "../redact/index.ts";
import {
  type ClaimedJob,
  type Json,
  type JsonObject,
  leaseKey,
  type NoteKind,
} from "../types/jobs.ts";
import { replaceUnencodable } from "../types/jsonb.ts";
import { DurableContext, type StepChannel } from "./durable.ts";
import { Cancelled } from "./outcome-exceptions.ts";

const MAX_MESSAGE_LENGTH = 8_000;
const MAX_REDACTED_LENGTH = 32 * 1024;
const MAX_NAME_LENGTH = 200;

/** Connects a running job to its worker. */
export interface JobChannel extends StepChannel {
  note(kind: NoteKind, data: JsonObject): void;
  secret(name: string): Promise<string>;
}

type CompleteJob = ReturnType<typeof calls.completeJob>;
type LogLevel = "debug" | "info" | "warning" | "error";

/** Log lines that are stored with the attempt: `ctx.log.info("sent", { to })`. */
export class Log {
  readonly #channel: JobChannel;
  readonly #scope: () => RedactionScope;

  constructor(channel: JobChannel, scope: () => RedactionScope) {
    this.#channel = channel;
    this.#scope = scope;
  }

  debug(message: string, fields: Readonly<Record<string, unknown>> = {}): void {
    this.#write("debug", message, fields);
  }

  info(message: string, fields: Readonly<Record<string, unknown>> = {}): void {
    this.#write("info", message, fields);
  }

  warning(message: string, fields: Readonly<Record<string, unknown>> = {}): void {
    this.#write("warning", message, fields);
  }

  error(message: string, fields: Readonly<Record<string, unknown>> = {}): void {
    this.#write("error", message, fields);
  }

  #write(level: LogLevel, message: string, fields: Readonly<Record<string, unknown>>): void {
    const kept = replaceUnencodable(fields) as JsonObject;
    this.#channel.note("log", { ...kept, level, message: this.#short(String(message)) });
  }

  /** Truncate the message. Redact it first, because a truncated secret is not recognized. */
  #short(message: string): string {
    if (message.length <= MAX_MESSAGE_LENGTH) return message;
    return redactHead(message, MAX_REDACTED_LENGTH, this.#scope()).slice(0, MAX_MESSAGE_LENGTH);
  }
}

/** The running job, as its handler sees it. */
export class Context extends DurableContext<JobChannel> {
  readonly #workerId: string | null;
  /** The job that the worker holds. In a hook, `job` is the finished job instead. */
  readonly #held: ClaimedJob;
  #controller: AbortController | null = null;
  #isStopRequested = false;
  #wasCompleted = false;

  constructor(job: ClaimedJob, channel: JobChannel, workerId: string | null, held = job) {
    super(job, channel);
    this.#workerId = workerId;
    this.#held = held;
  }

  get jobId(): string {
    return this.job.job_id;
  }

  get tenantId(): string {
    return this.job.tenant_id;
  }

  get definition(): string {
    return this.job.definition;
  }

  /**
   * The version under which the job was enqueued. Its arguments are upgraded to the newest version.
   */
  get version(): number {
    return this.job.version;
  }

  get queue(): string {
    return this.job.queue;
  }

  /** The number of this attempt, from 1. */
  get attempt(): number {
    return this.job.attempt;
  }

  get maxAttempts(): number {
    return this.job.max_attempts;
  }

  /** When the timeout ends, by the database's clock. */
  get deadline(): Date | null {
    if (this.job.timeout_s === null) return null;
    return new Date(parseStart(this.job) + this.job.timeout_s * 1000);
  }

  /** The idempotency key. */
  get key(): string | null {
    return this.job.idempotency_key;
  }

  get tags(): readonly string[] {
    return JSON.parse(this.job.tags_json ?? "[]") as string[];
  }

  get correlationId(): string | null {
    return this.job.correlation_id;
  }

  get traceparent(): string | null {
    return this.job.traceparent;
  }

  /** The payload as it was enqueued. */
  get payload(): JsonObject {
    return JSON.parse(this.job.payload_json) as JsonObject;
  }

  /**
   * The fencing token `<job id>.<lease>`. It increases with each attempt, so that other systems can
   * reject a stale attempt.
   */
  get fence(): string {
    return leaseKey(this.job);
  }

  get log(): Log {
    return new Log(this.channel, () => jobScope(this.#held));
  }

  /**
   * Report the job's progress. If you report progress several times in quick succession, JobForge
   * might store only the latest report.
   */
  progress(done: number, total?: number, message?: string): void {
    const data = { done, total, message };
    const given = Object.entries(data).filter(([, value]) => value !== undefined);
    this.channel.note("progress", replaceUnencodable(Object.fromEntries(given)) as JsonObject);
  }

  /** Add a custom event to the job's timeline. */
  emit(name: string, data: unknown = null): void {
    if (name === "" || name.length > MAX_NAME_LENGTH) {
      throw new Invalid(`name must have 1 to ${MAX_NAME_LENGTH} characters`, {
        field: "name",
      });
    }
    this.channel.note("event", { name, data: replaceUnencodable(data) });
  }

  /** Return a secret of the worker. Its value is redacted in logs and in the output of this job. */
  async secret(name: string): Promise<string> {
    const value = await this.channel.secret(name);
    jobScope(this.#held).add(value);
    return value;
  }

  /**
   * A signal that is aborted when the job is canceled, times out, or its worker shuts down. Pass it
   * to operations that wait.
   */
  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#isStopRequested) this.#controller.abort(new Cancelled());
    }
    return this.#controller.signal;
  }

  get cancelled(): boolean {
    return this.#isStopRequested;
  }

  /** Throw Cancelled if the job was asked to stop. */
  check(): void {
    if (this.#isStopRequested) throw new Cancelled();
  }

  /**
   * Complete the job as succeeded in the transaction of the handler's own connection: the commit
   * stores the handler's writes and the completion together. Throws InvalidResult for a result that
   * cannot be stored; roll back the transaction in that case.
   */
  async completeIn(conn: Queryable, result?: Json): Promise<void> {
    if (this.#workerId === null) {
      throw new Invalid("The job cannot be completed because no worker runs it", { field: "conn" });
    }
    const outcome = { outcome: "succeeded", started_at: this.job.started_at, result };
    checkCompleted(await runOn(conn, buildCompleteCall(this.job, this.#workerId, outcome)));
    this.#wasCompleted = true;
  }

  // The members below are for runners.

  /** Return a context with these fields of another job. Hooks see the finished job this way. */
  withJobFields(fields: Partial<ClaimedJob>): Context {
    return new Context({ ...this.job, ...fields }, this.channel, null, this.#held);
  }

  get wasCompleted(): boolean {
    return this.#wasCompleted;
  }

  requestStop(): void {
    this.#isStopRequested = true;
    this.#controller?.abort(new Cancelled());
  }
}

function buildCompleteCall(job: ClaimedJob, workerId: string, outcome: JsonObject): CompleteJob {
  try {
    return calls.completeJob(job, workerId, outcome);
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    throw new InvalidResult(error.message, { field: "result", cause: error });
  }
}

/**
 * Throw InvalidResult if the engine settled the job in another state: it fails a job whose result
 * it cannot store. A repeated call returns no state.
 */
function checkCompleted(state: string | null): void {
  if (state === null || state === "succeeded") return;
  throw new InvalidResult(
    "The job cannot be completed with this result: it is larger than 1 MiB, or nested more than" +
      " 64 levels deep",
    { field: "result" },
  );
}

/**
 * Return the start of the attempt in milliseconds. Postgres may write an offset with hours only,
 * which Date.parse rejects.
 */
function parseStart({ started_at }: ClaimedJob): number {
  return Date.parse(started_at.replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00"));
}
