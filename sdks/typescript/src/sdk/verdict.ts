/**
 * What the end of a run means: from an answer, an error or an exit to a Verdict. Knows nothing of
 * processes or the database. The engine decides what becomes of the job; here it is only said how
 * the attempt ended.
 */

import {
  ChildFailed,
  EventTimeout,
  type Invalid,
  InvalidPayload,
  InvalidResult,
} from "../errors.ts";
import { hideInHead, type Scope } from "../redact/index.ts";
import type { Json, JsonObject, Outcome } from "../types/jobs.ts";
import { legible } from "../types/jsonb.ts";
import { Cancel, Dead, Retry, Snooze } from "./retry.ts";
import type { Settings } from "./settings.ts";
import type { Waiting } from "./step-log.ts";

// The engine keeps errors of up to 64 KiB whole.
const LONGEST_MESSAGE = 8_000;
const LONGEST_TRACE = 16_000;
// No more of a message or a stack is redacted: whatever a handler throws, it takes no long time.
const MOST_READ = 32 * 1024;
const DEEPEST_CAUSE = 10;
// The next attempt would meet the same: what a step has come to is stored.
const FINAL = [InvalidPayload, InvalidResult, EventTimeout, ChildFailed];

/**
 * Why a run is stopped. `lost`: the lease has ended, so no outcome is reported. `expired`: the
 * lease ran out while the database was unreachable, and the job is handed back. `shutdown`: the
 * worker ends, and the job is handed back. These three leave no time to clean up.
 */
export type Stop = "cancel" | "timeout" | "lost" | "expired" | "shutdown";

export function isFinal(stop: Stop): boolean {
  return stop === "lost" || stop === "expired" || stop === "shutdown";
}

/** How an attempt ended, in the words of complete_jobs. */
export interface Verdict {
  readonly outcome: Outcome;
  readonly result?: Json | undefined;
  readonly error?: JsonObject | undefined;
  readonly reason?: string | undefined;
  readonly final?: boolean | undefined;
  readonly retry_in_s?: number | undefined;
  readonly run_at?: string | undefined;
  /** Of a snooze: what for. */
  readonly wait?: JsonObject | undefined;
}

export type Limit = "memory" | "cpu" | "file_size";

/** How a process ended: by exiting or by a signal, and over which of its limits. */
export interface Exit {
  readonly code: number | null;
  readonly signal: string | null;
  readonly over: Limit | null;
}

export const SUCCEEDED: Verdict = { outcome: "succeeded" };
export const RELEASED: Verdict = { outcome: "released" };

export function returned(result: Json | undefined): Verdict {
  return result === undefined ? SUCCEEDED : { outcome: "succeeded", result };
}

/** The handler has come to something that is not there yet. */
export function waits({ wait, delayS, runAt }: Waiting): Verdict {
  return { outcome: "snoozed", retry_in_s: delayS, run_at: runAt, wait };
}

/** The handler returned something that cannot be kept: it would again. */
export function unusable(error: Invalid, scope: Scope): Verdict {
  return { outcome: "failed", error: described(error, scope, "InvalidResult"), final: true };
}

export function thrown(
  error: unknown,
  settings: Pick<Settings, "giveUpOn">,
  stopped: Stop | null,
  scope: Scope,
): Verdict {
  return after(said(error, settings, scope), stopped);
}

/** A process has ended; `told` is what it said before. Null: there is nothing to report. */
export function exited(how: Exit, stopped: Stop | null, told: Verdict | null): Verdict | null {
  if (stopped === "lost") return null;
  return after(told ?? { outcome: "crashed", error: crash(how) }, stopped);
}

function said(error: unknown, settings: Pick<Settings, "giveUpOn">, scope: Scope): Verdict {
  if (error instanceof Snooze) {
    return { outcome: "snoozed", retry_in_s: error.delayS, run_at: error.runAt };
  }
  if (error instanceof Cancel) return { outcome: "canceled", reason: head(error.message, scope) };
  if (error instanceof Dead)
    return { outcome: "failed", error: described(error, scope), final: true };
  if (error instanceof Retry) {
    return { outcome: "failed", error: described(error, scope), retry_in_s: error.afterS };
  }
  if (isOutOfMemory(error)) return { outcome: "crashed", error: over("memory") };
  const isFinalError = [...FINAL, ...settings.giveUpOn].some((kind) => error instanceof kind);
  return { outcome: "failed", error: described(error, scope), final: isFinalError || undefined };
}

/** What a run said that had been told to end: only an answer of its own choice still counts. */
function after(told: Verdict, stopped: Stop | null): Verdict {
  if (stopped === null || isChosen(told)) return told;
  switch (stopped) {
    case "timeout":
      return {
        ...told,
        outcome: "timed_out",
        error: { ...told.error, type: "TimedOut", message: "the timeout has passed" },
      };
    case "cancel":
      return { ...told, outcome: "canceled" };
    default:
      return RELEASED;
  }
}

function isChosen(told: Verdict): boolean {
  if (["succeeded", "snoozed", "canceled"].includes(told.outcome)) return true;
  return told.final !== undefined || told.retry_in_s !== undefined;
}

/** An allocation that the limit of the process refused. */
function isOutOfMemory(error: unknown): boolean {
  return error instanceof RangeError && /allocation failed/.test(error.message);
}

/** Whatever was thrown: a handler may throw anything. */
function described(error: unknown, scope: Scope, name?: string): JsonObject {
  return {
    type:
      name ??
      head(
        read(() => typeOf(error)),
        scope,
      ),
    message: head(
      read(() => messageOf(error)),
      scope,
    ).slice(0, LONGEST_MESSAGE),
    traceback: head(
      read(() => traceOf(error)),
      scope,
    ).slice(0, LONGEST_TRACE),
  };
}

// Redacted before it is cut to what is kept: half a secret would not be known as one.

function head(text: string, scope: Scope): string {
  return hideInHead(text, MOST_READ, scope);
}

function read(find: () => unknown): string {
  try {
    return String(find());
  } catch {
    return "<unreadable>";
  }
}

function typeOf(error: unknown): unknown {
  if (!(error instanceof Error)) return typeof error;
  return error.name === "Error" ? error.constructor.name : error.name;
}

function messageOf(error: unknown): unknown {
  if (typeof error !== "object" || error === null) return String(error);
  if (error instanceof AggregateError && error.message === "") {
    return error.errors.map(messageOf).join("; ");
  }
  return "message" in error ? error.message : JSON.stringify(legible(error));
}

/** With what it was caused by, and what it gathers. */
function traceOf(error: unknown, depth = 0): string {
  if (!(error instanceof Error))
    return typeof error === "object" ? JSON.stringify(legible(error)) : String(error);
  const within = [error.cause, ...(error instanceof AggregateError ? error.errors : [])];
  const causes = depth < DEEPEST_CAUSE ? within.filter((each) => each !== undefined) : [];
  return [error.stack, ...causes.map((each) => `caused by: ${traceOf(each, depth + 1)}`)].join(
    "\n",
  );
}

function crash(how: Exit): JsonObject {
  if (how.over !== null) return over(how.over);
  if (how.signal !== null) return { type: "Crashed", message: `killed by ${how.signal}` };
  return { type: "Crashed", message: `ended with exit code ${how.code} and no outcome` };
}

function over(limit: Limit): JsonObject {
  const words = limit.replace("_", " ");
  return { type: "Crashed", message: `went over its ${words} limit`, reason: limit };
}
