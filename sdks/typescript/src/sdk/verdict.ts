/**
 * How an attempt ended: pure functions from a result, an error or a process exit to a Verdict. The
 * engine decides the state of the job that follows from it.
 */

import {
  ChildFailed,
  EventTimeout,
  type Invalid,
  InvalidPayload,
  InvalidResult,
} from "../errors.ts";
import { type RedactionScope, redactHead } from "../redact/index.ts";
import type { Json, JsonObject, Verdict } from "../types/jobs.ts";
import { replaceUnencodable } from "../types/jsonb.ts";
import type { DefinitionSettings } from "./definition-settings.ts";
import { Cancel, Dead, Retry, Snooze } from "./outcome-exceptions.ts";
import type { Suspension } from "./step-log.ts";

// The engine stores errors of up to 64 KiB.
const MAX_MESSAGE_LENGTH = 8_000;
const MAX_TRACE_LENGTH = 16_000;
// Limits the time that redacting a message or a stack takes.
const MAX_REDACTED_LENGTH = 32 * 1024;
const MAX_CAUSE_DEPTH = 10;
// A retry would fail in the same way: the outcome of a step is stored.
const FINAL_ERRORS = [InvalidPayload, InvalidResult, EventTimeout, ChildFailed];

/**
 * Why a run was asked to stop. `lost`: the lease has ended, so no outcome is reported. `expired`:
 * the lease ended while the database was unreachable, and the job is released to the queue.
 * `shutdown`: the worker shuts down, and the job is released to the queue. These three kill the run
 * without a grace period.
 */
export type StopReason = "cancel" | "timeout" | "lost" | "expired" | "shutdown";

export function isFinal(stop: StopReason): boolean {
  return stop === "lost" || stop === "expired" || stop === "shutdown";
}

export type ExceededLimit = "memory" | "cpu" | "file_size";

/** How a process ended: its exit code or signal, and the limit that it exceeded, if any. */
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

/** Return the verdict of an attempt that ends to wait. */
export function verdictFromWait({ wait, delayS, runAt }: Suspension): Verdict {
  return { outcome: "snoozed", retry_in_s: delayS, run_at: runAt, wait };
}

/** Fail without retry: the handler would return the same unusable result again. */
export function verdictFromInvalidResult(error: Invalid, scope: RedactionScope): Verdict {
  return { outcome: "failed", error: errorToJson(error, scope, "InvalidResult"), final: true };
}

export function verdictFromError(
  error: unknown,
  settings: Pick<DefinitionSettings, "giveUpOn">,
  stopped: StopReason | null,
  scope: RedactionScope,
): Verdict {
  return applyStop(classifyError(error, settings, scope), stopped);
}

/**
 * Return the verdict of a process that has ended, or null if there is nothing to report. `reported`
 * is the verdict that the process sent before.
 */
export function verdictFromExit(
  exit: ProcessExit,
  stopped: StopReason | null,
  reported: Verdict | null,
): Verdict | null {
  if (stopped === "lost") return null;
  return applyStop(reported ?? { outcome: "crashed", error: crashToJson(exit) }, stopped);
}

function classifyError(
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

/**
 * Return the verdict of a run that was asked to stop. An outcome that the handler chose still
 * counts.
 */
function applyStop(reported: Verdict, stopped: StopReason | null): Verdict {
  if (stopped === null || isChosen(reported)) return reported;
  switch (stopped) {
    case "timeout":
      return {
        ...reported,
        outcome: "timed_out",
        error: { ...reported.error, type: "TimedOut", message: "The attempt exceeded its timeout" },
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

/** Whether an allocation exceeded the memory limit of the process. */
function isOutOfMemory(error: unknown): boolean {
  return error instanceof RangeError && /allocation failed/.test(error.message);
}

/** Describe any thrown value; handlers may throw values that are not errors. */
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

// Redact the text before it is truncated, because a truncated secret is not recognized.

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

/** Format the stack, its causes, and the errors of an AggregateError. */
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
  if (exit.signal !== null) return { type: "Crashed", message: `Killed by ${exit.signal}` };
  return { type: "Crashed", message: `Exited with code ${exit.code} and without an outcome` };
}

function limitCrashToJson(limit: ExceededLimit): JsonObject {
  const words = limit.replace("_", " ");
  return { type: "Crashed", message: `Exceeded its ${words} limit`, reason: limit };
}
