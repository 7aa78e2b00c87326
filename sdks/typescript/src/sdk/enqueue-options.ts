/** The options of `using({…})`: how a job is enqueued, apart from its arguments. */

import type { Queryable } from "../db/queryable.ts";
import { Invalid } from "../errors.ts";
import type { JobRequest } from "../types/jobs.ts";
import { type Duration, seconds, wholeSeconds } from "./duration.ts";

/** The options of `using({…})`: how a job is enqueued. */
export interface Using {
  /** UUID or slug of the tenant. */
  readonly tenant?: string;
  /** Your own connection: the job is part of its transaction. */
  readonly conn?: Queryable;
  /** Earliest start, as a duration from now. */
  readonly delay?: Duration;
  /** Earliest start. */
  readonly at?: Date;
  /**
   * Whether to allow a start more than a year from now, which is otherwise rejected as a probable
   * mistake.
   */
  readonly farFuture?: boolean;
  /** Idempotency key, unique per tenant and definition. */
  readonly key?: string;
  /**
   * How long the key is reserved: 30 days (default), "active" while the job can still run, or a
   * duration.
   */
  readonly dedupe?: "active" | Duration;
  /**
   * What to do if the key exists: return its job ("existing", the default), replace the arguments
   * of that job if it has not started ("replace"), or throw DuplicateKey ("raise").
   */
  readonly onConflict?: "existing" | "replace" | "raise";
  /** Higher values run first (default: 0). */
  readonly priority?: number;
  /** Queue, instead of the definition's. */
  readonly queue?: string;
  /** Up to 50 strings. */
  readonly tags?: readonly string[];
  /** Maximum number of attempts, instead of the definition's. */
  readonly maxAttempts?: number;
  /** Timeout of one attempt, instead of the definition's. */
  readonly timeout?: Duration;
  /** Cancel the job if it has not started within this time. */
  readonly expiresIn?: Duration;
  /** Cancel the job if it has not started by this time. */
  readonly expiresAt?: Date;
  /** Key by which limits per key count the job. */
  readonly limitKey?: string;
  /** ID that is stored with the job and passed on to jobs that it enqueues. */
  readonly correlationId?: string;
  /** Trace context of the job, in the format of W3C Trace Context. */
  readonly traceparent?: string;
}

export interface EnqueueOptions {
  readonly tenant?: string | undefined;
  readonly conn?: Queryable | undefined;
  readonly request: Omit<JobRequest, "definition">;
}

export const NO_OPTIONS: EnqueueOptions = { request: {} };

/** Return the options, with `defaults` for omitted fields. */
export function readOptions(given: Using, defaults: EnqueueOptions): EnqueueOptions {
  const fields = {
    queue: given.queue,
    priority: given.priority,
    run_at: readMoment(given.at, "at"),
    delay_s: readDuration(given.delay, "delay"),
    expires_at: readMoment(given.expiresAt, "expiresAt"),
    expires_in_s: readDuration(given.expiresIn, "expiresIn"),
    max_attempts: given.maxAttempts,
    timeout_s: given.timeout === undefined ? undefined : wholeSeconds(given.timeout, "timeout"),
    key: given.key,
    ...keyMode(given.dedupe),
    on_conflict: given.onConflict,
    limit_key: given.limitKey,
    tags: given.tags,
    correlation_id: given.correlationId,
    traceparent: given.traceparent,
    far_future: given.farFuture,
  };
  const request = { ...defaults.request, ...dropUndefined(fields) };
  if (request.key === undefined && (request.key_mode ?? request.on_conflict) !== undefined) {
    throw new Invalid("dedupe and onConflict require a key", { field: "key" });
  }
  return { tenant: given.tenant ?? defaults.tenant, conn: given.conn ?? defaults.conn, request };
}

function dropUndefined<T extends object>(given: T): Partial<T> {
  const entries = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as Partial<T>;
}

function keyMode(dedupe: Using["dedupe"]): Pick<JobRequest, "key_mode" | "key_window_s"> {
  if (dedupe === undefined) return {};
  if (dedupe === "active") return { key_mode: "active" };
  return { key_mode: "window", key_window_s: seconds(dedupe, "dedupe") };
}

function readDuration(given: Duration | undefined, field: string): number | undefined {
  return given === undefined ? undefined : seconds(given, field);
}

function readMoment(given: Date | undefined, field: string): string | undefined {
  if (given === undefined) return undefined;
  if (!(given instanceof Date) || Number.isNaN(given.getTime())) {
    throw new Invalid(`${field} must be a Date`, { field });
  }
  return given.toISOString();
}
