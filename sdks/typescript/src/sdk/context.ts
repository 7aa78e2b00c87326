/**
 * What a handler gets to know and to say about its own job: `ctx`. What it says goes over a Channel;
 * who listens there is left to the runners. What it has done in earlier attempts, and what it does
 * once for all of them, is in durable.ts.
 */

import * as calls from "../calls/index.ts";
import { type Queryable, runOn } from "../db/queryable.ts";
import { Invalid, InvalidResult } from "../errors.ts";
import { jobScope, type RedactionScope, redactHead } from "../redact/index.ts";
import type { ClaimedJob, Json, JsonObject, NoteKind } from "../types/jobs.ts";
import { replaceUnencodable } from "../types/jsonb.ts";
import { DurableContext, type StepChannel } from "./durable.ts";
import { Cancelled } from "./retry.ts";

const MAX_MESSAGE_LENGTH = 8_000;
const MAX_REDACTED_LENGTH = 32 * 1024;
const MAX_NAME_LENGTH = 200;

/** How a running job reaches its worker. */
export interface JobChannel extends StepChannel {
  note(kind: NoteKind, data: JsonObject): void;
  secret(name: string): Promise<string>;
}

type CompleteJob = ReturnType<typeof calls.completeJob>;
type LogLevel = "debug" | "info" | "warning" | "error";

/** Lines that are kept with the attempt: `ctx.log.info("sent", { to })`. */
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

  /** A cut might go through a secret, so that the rest of it is no longer known for one. */
  #short(message: string): string {
    if (message.length <= MAX_MESSAGE_LENGTH) return message;
    return redactHead(message, MAX_REDACTED_LENGTH, this.#scope()).slice(0, MAX_MESSAGE_LENGTH);
  }
}

/** The job that runs, for its handler. */
export class Context extends DurableContext<JobChannel> {
  readonly #workerId: string | null;
  /** The job that a worker holds; that of a hook is about another. */
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

  /** The version under which the job was enqueued; its arguments are of the newest. */
  get version(): number {
    return this.job.version;
  }

  get queue(): string {
    return this.job.queue;
  }

  /** 1 for the first. */
  get attempt(): number {
    return this.job.attempt;
  }

  get maxAttempts(): number {
    return this.job.max_attempts;
  }

  /** When the timeout passes, by the database's clock. */
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

  /** As it was enqueued. */
  get payload(): JsonObject {
    return JSON.parse(this.job.payload_json) as JsonObject;
  }

  /** `<job id>.<lease>`: grows with each attempt, so that others can refuse an older one. */
  get fence(): string {
    return `${this.job.job_id}.${this.job.lease}`;
  }

  get log(): Log {
    return new Log(this.channel, () => jobScope(this.#held));
  }

  /** How far the job has come. Only the latest of many in a row may be kept. */
  progress(done: number, total?: number, message?: string): void {
    const data = { done, total, message };
    const given = Object.entries(data).filter(([, value]) => value !== undefined);
    this.channel.note("progress", replaceUnencodable(Object.fromEntries(given)) as JsonObject);
  }

  /** An event of the job's own, in its timeline. */
  emit(name: string, data: unknown = null): void {
    if (name === "" || name.length > MAX_NAME_LENGTH) {
      throw new Invalid(`the name of an event has 1 to ${MAX_NAME_LENGTH} letters`, {
        field: "name",
      });
    }
    this.channel.note("event", { name, data: replaceUnencodable(data) });
  }

  /** A secret of the worker's. Its value is hidden in the output of this job, and in logs. */
  async secret(name: string): Promise<string> {
    const value = await this.channel.secret(name);
    jobScope(this.#held).add(value);
    return value;
  }

  /** Aborted when the job is canceled, times out or its worker ends; give it to what waits. */
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

  /** Throws Cancelled when the job was asked to stop. */
  check(): void {
    if (this.#isStopRequested) throw new Cancelled();
  }

  /**
   * Ends the job as succeeded within the transaction of the handler's own connection. Whether the
   * handler's writes and this are kept, its commit decides: for both or for neither. InvalidResult
   * for a result that no row can keep: then neither should be committed.
   */
  async completeIn(conn: Queryable, result?: Json): Promise<void> {
    if (this.#workerId === null) {
      throw new Invalid("no worker holds this job, so it cannot be completed", { field: "conn" });
    }
    const outcome = { outcome: "succeeded", started_at: this.job.started_at, result };
    checkCompleted(await runOn(conn, buildCompleteCall(this.job, this.#workerId, outcome)));
    this.#wasCompleted = true;
  }

  // The rest is for the runners.

  /** The same, speaking of another job: hooks are told of the job that has ended. */
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

/** The engine settles a result that it cannot keep as a failure. Null: it was told before. */
function checkCompleted(state: string | null): void {
  if (state === null || state === "succeeded") return;
  throw new InvalidResult(
    "the job cannot be completed with this result: it is larger than 1 MiB or nested more than" +
      " 64 levels deep",
    { field: "result" },
  );
}

/** In milliseconds; as Postgres writes it, an offset may be of hours alone. */
function parseStart({ started_at }: ClaimedJob): number {
  return Date.parse(started_at.replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00"));
}
