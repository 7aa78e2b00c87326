/**
 * What a process says about itself: one JSON object per line on stderr, redacted. Before
 * configure() is called, as in an application that only enqueues, nothing is said.
 */

import { hideObject, LOG_SCOPE } from "../redact/index.ts";
import type { ClaimedJob, Json } from "../types/jobs.ts";

export const LEVELS = ["debug", "info", "warning", "error", "critical"] as const;
export type Level = (typeof LEVELS)[number];
export type Write = (line: string) => void;

interface Writer {
  readonly threshold: number;
  readonly workerId: string | undefined;
  readonly write: Write;
}

let writer: Writer | null = null;

export interface LogSettings {
  readonly level?: Level;
  readonly workerId?: string;
  readonly write?: Write;
}

/** From now on this process writes its own lines. May be called again, to change things. */
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

/** Whether such a line would be written; ask before gathering costly fields. */
export function isEnabled(level: Level): boolean {
  return writer !== null && LEVELS.indexOf(level) >= writer.threshold;
}

export type Fields = Readonly<Record<string, Json | undefined>>;

/** Writes one event, named noun.verb; never throws. */
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
    // A field of the caller's must not pass for one of ours.
    ([name, value]) => [name in head && name !== "worker_id" ? `${name}_` : name, value] as const,
  );
  try {
    writer.write(`${JSON.stringify({ ...head, ...Object.fromEntries(redactedFields) })}\n`);
  } catch {
    // Nobody reads any more; work goes on.
  }
}

/** What every line about a job carries. */
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

/** The enqueuer's trace when the job carries one, else the job's own id, which is as long. */
export function traceId(job: ClaimedJob): string {
  return TRACEPARENT.exec(job.traceparent ?? "")?.[1] ?? job.job_id.replaceAll("-", "");
}
