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
import { type RedactionScope, redactHead } from "../redact/index.ts";
import type { Json, JsonObject, Outcome } from "../types/jobs.ts";
import { replaceUnencodable } from "../types/jsonb.ts";
import { Cancel, Dead, Retry, Snooze } from "./retry.ts";
import type { DefinitionSettings } from "./settings.ts";
import type { Suspension } from "./step-log.ts";

// The engine keeps errors of up to 64 KiB whole.
const MAX_MESSAGE_LENGTH = 8_000;
const MAX_TRACE_LENGTH = 16_000;
// No more of a message or a stack is redacted: whatever a handler throws, it takes no long time.
const MAX_REDACTED_LENGTH = 32 * 1024;
const MAX_CAUSE_DEPTH = 10;
// The next attempt would meet the same: what a step has come to is stored.
const FINAL_ERRORS = [InvalidPayload, InvalidResult, EventTimeout, ChildFailed];

/**
 * Why a run is stopped. `lost`: the lease has ended, so no outcome is reported. `expired`: the
 * lease ran out while the database was unreachable, and the job is handed back. `shutdown`: the
 * worker ends, and the job is handed back. These three leave no time to clean up.
 */
export type StopReason = "cancel" | "timeout" | "lost" | "expired" | "shutdown";

export function isFinal(stop: StopReason): boolean {
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

export type ExceededLimit = "memory" | "cpu" | "file_size";

/** How a process ended: by exiting or by a signal, and over which of its limits. */
export interface ProcessExit {
  readonly code: number | null;
  readonly signal: string | null;
  readonly exceeded: ExceededLimit | null;
}

export const SUCCEEDED_VERDICT: Verdict = { outcome: "succeeded" };
export const RELEASED_VERDICT: Verdict = { outcome: "released" };

export function verdictFromResult(result: Json | undefined): Verdict {
  return result === undefined ? SUCCEEDED_VERDICT : { outcome: "succeeded", result };
}

/** The handler has come to something that is not there yet. */
export function verdictFromWait({ wait, delayS, runAt }: Suspension): Verdict {
  return { outcome: "snoozed", retry_in_s: delayS, run_at: runAt, wait };
}

/** The handler returned something that cannot be kept: it would again. */
export function verdictFromInvalidResult(error: Invalid, scope: RedactionScope): Verdict {
  return { outcome: "failed", error: errorToJson(error, scope, "InvalidResult"), final: true };
}

export function verdictFromError(
  error: unknown,
  settings: Pick<DefinitionSettings, "giveUpOn">,
  stopped: StopReason | null,
  scope: RedactionScope,
): Verdict {
  return applyStop(verdictBeforeStop(error, settings, scope), stopped);
}

/** A process has ended; `told` is what it said before. Null: there is nothing to report. */
export function verdictFromExit(
  exit: ProcessExit,
  stopped: StopReason | null,
  reported: Verdict | null,
): Verdict | null {
  if (stopped === "lost") return null;
  return applyStop(reported ?? { outcome: "crashed", error: crashToJson(exit) }, stopped);
}

function verdictBeforeStop(
  error: unknown,
  settings: Pick<DefinitionSettings, "giveUpOn">,
  scope: RedactionScope,
): Verdict {
  if (error instanceof Snooze) {
    return { outcome: "snoozed", retry_in_s: error.delayS, run_at: error.runAt };
  }
  if (error instanceof Cancel)
    return { outcome: "canceled", reason: shorten(error.message, scope) };
  if (error instanceof Dead)
    return { outcome: "failed", error: errorToJson(error, scope), final: true };
  if (error instanceof Retry) {
    return { outcome: "failed", error: errorToJson(error, scope), retry_in_s: error.afterS };
  }
  if (isOutOfMemory(error)) return { outcome: "crashed", error: limitCrashToJson("memory") };
  const isFinalError = [...FINAL_ERRORS, ...settings.giveUpOn].some(
    (kind) => error instanceof kind,
  );
  return { outcome: "failed", error: errorToJson(error, scope), final: isFinalError || undefined };
}

/** What a run said that had been told to end: only an answer of its own choice still counts. */
function applyStop(reported: Verdict, stopped: StopReason | null): Verdict {
  if (stopped === null || isChosen(reported)) return reported;
  switch (stopped) {
    case "timeout":
      return {
        ...reported,
        outcome: "timed_out",
        error: { ...reported.error, type: "TimedOut", message: "the timeout has passed" },
      };
    case "cancel":
      return { ...reported, outcome: "canceled" };
    default:
      return RELEASED_VERDICT;
  }
}

function isChosen(reported: Verdict): boolean {
  if (["succeeded", "snoozed", "canceled"].includes(reported.outcome)) return true;
  return reported.final !== undefined || reported.retry_in_s !== undefined;
}

/** An allocation that the limit of the process refused. */
function isOutOfMemory(error: unknown): boolean {
  return error instanceof RangeError && /allocation failed/.test(error.message);
}

/** Whatever was thrown: a handler may throw anything. */
function errorToJson(error: unknown, scope: RedactionScope, name?: string): JsonObject {
  return {
    type:
      name ??
      shorten(
        readSafely(() => getTypeName(error)),
        scope,
      ),
    message: shorten(
      readSafely(() => getMessage(error)),
      scope,
    ).slice(0, MAX_MESSAGE_LENGTH),
    traceback: shorten(
      readSafely(() => formatTrace(error)),
      scope,
    ).slice(0, MAX_TRACE_LENGTH),
  };
}

// Redacted before it is cut to what is kept: half a secret would not be known as one.

function shorten(text: string, scope: RedactionScope): string {
  return redactHead(text, MAX_REDACTED_LENGTH, scope);
}

function readSafely(find: () => unknown): string {
  try {
    return String(find());
  } catch {
    return "<unreadable>";
  }
}

function getTypeName(error: unknown): unknown {
  if (!(error instanceof Error)) return typeof error;
  return error.name === "Error" ? error.constructor.name : error.name;
}

function getMessage(error: unknown): unknown {
  if (typeof error !== "object" || error === null) return String(error);
  if (error instanceof AggregateError && error.message === "") {
    return error.errors.map(getMessage).join("; ");
  }
  return "message" in error ? error.message : JSON.stringify(replaceUnencodable(error));
}

/** With what it was caused by, and what it gathers. */
function formatTrace(error: unknown, depth = 0): string {
  if (!(error instanceof Error))
    return typeof error === "object" ? JSON.stringify(replaceUnencodable(error)) : String(error);
  const within = [error.cause, ...(error instanceof AggregateError ? error.errors : [])];
  const causes = depth < MAX_CAUSE_DEPTH ? within.filter((each) => each !== undefined) : [];
  return [error.stack, ...causes.map((each) => `caused by: ${formatTrace(each, depth + 1)}`)].join(
    "\n",
  );
}

function crashToJson(exit: ProcessExit): JsonObject {
  if (exit.exceeded !== null) return limitCrashToJson(exit.exceeded);
  if (exit.signal !== null) return { type: "Crashed", message: `killed by ${exit.signal}` };
  return { type: "Crashed", message: `ended with exit code ${exit.code} and no outcome` };
}

function limitCrashToJson(limit: ExceededLimit): JsonObject {
  const words = limit.replace("_", " ");
  return { type: "Crashed", message: `went over its ${words} limit`, reason: limit };
}
