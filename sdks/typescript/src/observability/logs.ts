/**
 * Logs of a process: one JSON object per line on stderr, redacted. Before configure() is called, as
 * in an application that only enqueues, nothing is logged.
 */

import { hideObject, LOG_SCOPE } from "../redact/index.ts";
import type { ClaimedJob, Json } from "../types/jobs.ts";

export const LEVELS = ["debug", "info", "warning", "error", "critical"] as const;
/** A log level. */
export type Level = (typeof LEVELS)[number];
/** A function that writes one log line. */
export type Write = (line: string) => void;

interface Writer {
  readonly threshold: number;
  readonly workerId: string | undefined;
  readonly write: Write;
}

let writer: Writer | null = null;

/** The settings of a process's logs. */
export interface LogSettings {
  /** Lowest level that is logged (default: "info"). */
  readonly level?: Level;
  /** ID that each line contains as `worker_id`. */
  readonly workerId?: string;
  /** Receives each line (default: write to stderr). */
  readonly write?: Write;
}

/** Enable logging in this process, or change its settings. */
export function configure(settings: LogSettings = {}): void {
  writer = {
    threshold: LEVELS.indexOf(settings.level ?? "info"),
    workerId: settings.workerId,
    write: settings.write ?? ((line) => void process.stderr.write(line)),
  };
}

export function unconfigure(): void {
  writer = null;
}

/** Whether a line of this level would be written. Check this before collecting costly fields. */
export function isEnabled(level: Level): boolean {
  return writer !== null && LEVELS.indexOf(level) >= writer.threshold;
}

export type Fields = Readonly<Record<string, Json | undefined>>;

/** Write one event, named noun.verb. Never throws. */
export function emit(event: string, fields: Fields = {}, level: Level = "info"): void {
  if (writer === null || !isEnabled(level)) return;
  const head = {
    timestamp: new Date().toISOString(),
    level,
    event,
    ...(writer.workerId === undefined ? {} : { worker_id: writer.workerId }),
  };
  const given = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null);
  const redactedFields = Object.entries(hideObject(Object.fromEntries(given), LOG_SCOPE)).map(
    // Rename the caller's fields that would replace standard fields.
    ([name, value]) => [name in head && name !== "worker_id" ? `${name}_` : name, value] as const,
  );
  try {
    writer.write(`${JSON.stringify({ ...head, ...Object.fromEntries(redactedFields) })}\n`);
  } catch {
    // The stream is closed. A lost log line must not stop the worker.
  }
}

/** The fields of each event about a job. */
export function jobFields(job: ClaimedJob): Record<string, Json> {
  return {
    trace_id: traceId(job),
    job_id: job.job_id,
    definition: `${job.definition}@${job.version}`,
    tenant_id: job.tenant_id,
    attempt: job.attempt,
  };
}

const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}/;

/** Return the trace ID of the job's traceparent, or the job's own ID, which has the same length. */
export function traceId(job: ClaimedJob): string {
  return TRACEPARENT.exec(job.traceparent ?? "")?.[1] ?? job.job_id.replaceAll("-", "");
}
