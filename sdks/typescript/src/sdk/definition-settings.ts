/** The settings of a definition: how its jobs run, as frozen data. */

import type { z } from "zod";
import { Invalid } from "../errors.ts";
import type { Json, JsonObject } from "../types/jobs.ts";
import { type Duration, seconds, wholeSeconds } from "./duration.ts";
import { checkAttempts, type RetryPolicy } from "./outcome-exceptions.ts";

/** Where a job runs: in a separate process, or in the worker's event loop. */
export type Isolation = "process" | "inline";
/** A number of bytes, or a string such as "256MB". */
export type Size = number | string;

/** A rate limit: `jobs` per `periodS` seconds. */
export interface Rate {
  readonly jobs: number;
  /** Default: 1 second. */
  readonly periodS?: number;
  /** Maximum number of unused starts that accumulate (default: `jobs`). */
  readonly burst?: number;
}

/** The options of `jf.job(…)`. */
export interface JobOptions<P extends z.ZodObject, R> {
  /** Version of the parameters (default: 1). */
  readonly version?: number;
  /** Queue of the jobs (default: "default"). */
  readonly queue?: string;
  /** Retry policy, or the maximum number of attempts. */
  readonly retry?: RetryPolicy | number;
  /** Timeout of one attempt (default: 3600 seconds). */
  readonly timeout?: Duration;
  /** "process" (default), or "inline" for light jobs, which run in the worker's event loop. */
  readonly isolation?: Isolation;
  /** Memory limit of the job's process (default: 2 GiB). */
  readonly memory?: Size;
  /** Limit on the CPU time of the job's process (default: none). */
  readonly cpu?: Duration;
  /** Maximum number of open files of the job's process (default: 1024). */
  readonly openFiles?: number;
  /** Maximum size of a file that the job writes (default: 1 GiB). */
  readonly fileSize?: Size;
  /** Time between the request to stop and the kill (default: 10 seconds). */
  readonly grace?: Duration;
  /** Label for the dashboard and the command line. */
  readonly description?: string;
  /** Concurrency limit: maximum number of running jobs. */
  readonly maxRunning?: number;
  /** Maximum number of running jobs with the same `limitKey`. */
  readonly maxRunningPerKey?: number;
  /** Rate limit of the definition. */
  readonly rate?: Rate;
  /** Rate limit for each `limitKey`. */
  readonly ratePerKey?: Rate;
  /** Schema of the payload (default: an empty object). */
  readonly params?: P;
  /** Schema of the handler's result. */
  readonly result?: z.ZodType<R>;
}

export interface ProcessLimits {
  readonly memoryBytes: number;
  readonly cpuS: number | null;
  readonly openFiles: number;
  readonly fileSizeBytes: number;
}

export interface DefinitionSettings {
  readonly key: string;
  readonly version: number;
  readonly queue: string;
  readonly timeoutS: number;
  readonly maxAttempts: number;
  readonly backoffBaseS: number;
  readonly backoffCapS: number;
  readonly giveUpOn: NonNullable<RetryPolicy["giveUpOn"]>;
  readonly isolation: Isolation;
  readonly limits: ProcessLimits;
  readonly graceS: number;
  readonly description: string | undefined;
  readonly maxRunning: number | undefined;
  readonly maxRunningPerKey: number | undefined;
  readonly rate: Rate | undefined;
  readonly ratePerKey: Rate | undefined;
}

const MIB = 1024 ** 2;
const GIB = 1024 ** 3;
const UNITS: Record<string, number> = { "": 1, K: 1024, M: MIB, G: GIB, T: 1024 ** 4 };

export function readSettings<P extends z.ZodObject, R>(
  key: string,
  given: Omit<JobOptions<P, R>, "params" | "result">,
): DefinitionSettings {
  const retry =
    typeof given.retry === "number" ? { maxAttempts: given.retry } : (given.retry ?? {});
  return {
    key: checkName(key, "key", 200),
    version: checkWhole(given.version ?? 1, "version", 1, 2 ** 31 - 1),
    queue: checkName(given.queue ?? "default", "queue", 50),
    timeoutS: checkWhole(wholeSeconds(given.timeout ?? 3600, "timeout"), "timeout", 1, 604_800),
    maxAttempts: checkAttempts(retry.maxAttempts ?? 5),
    backoffBaseS: seconds(retry.base ?? 1, "base"),
    backoffCapS: seconds(retry.cap ?? 3600, "cap"),
    giveUpOn: retry.giveUpOn ?? [],
    isolation: checkIsolation(given.isolation ?? "process"),
    limits: {
      memoryBytes: parseSize(given.memory ?? 2 * GIB, "memory"),
      cpuS: given.cpu === undefined ? null : wholeSeconds(given.cpu, "cpu"),
      openFiles: checkWhole(given.openFiles ?? 1024, "openFiles", 16, 2 ** 20),
      fileSizeBytes: parseSize(given.fileSize ?? GIB, "fileSize"),
    },
    graceS: seconds(given.grace ?? 10, "grace"),
    description: given.description,
    maxRunning: given.maxRunning,
    maxRunningPerKey: given.maxRunningPerKey,
    rate: given.rate,
    ratePerKey: given.ratePerKey,
  };
}

/** Return the settings for put_definition. `schema` is the JSON Schema of the parameters. */
export function buildRegistration(
  settings: DefinitionSettings,
  schema: JsonObject,
  hooks: boolean,
): JsonObject {
  const given: Record<string, Json | undefined> = {
    description: settings.description,
    parameters: schema,
    queue: settings.queue,
    timeout_s: settings.timeoutS,
    max_attempts: settings.maxAttempts,
    backoff_base_s: settings.backoffBaseS,
    backoff_cap_s: settings.backoffCapS,
    max_running: settings.maxRunning,
    max_running_per_key: settings.maxRunningPerKey,
    ...rateFields("", settings.rate),
    ...rateFields("_per_key", settings.ratePerKey),
    hooks: hooks || undefined,
  };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

function rateFields(suffix: string, given: Rate | undefined): Record<string, Json | undefined> {
  if (given === undefined) return {};
  return {
    [`rate_limit${suffix}`]: given.jobs,
    [`rate_period${suffix}_s`]: given.periodS ?? 1,
    [`rate_burst${suffix}`]: given.burst,
  };
}

/** Return the bytes of "256MB", "1.5 GiB" or a plain number. Units are multiples of 1024. */
function parseSize(given: Size, field: string): number {
  const matched = /^\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:I?B)?\s*$/i.exec(String(given));
  const bytes = matched ? Number(matched[1]) * (UNITS[(matched[2] ?? "").toUpperCase()] ?? 1) : 0;
  if (bytes < 1) {
    throw new Invalid(`${field} must be bytes or a string such as "256MB", not ${given}`, {
      field,
    });
  }
  return Math.floor(bytes);
}

function checkIsolation(given: Isolation): Isolation {
  if (given === "process" || given === "inline") return given;
  throw new Invalid(`isolation must be process or inline, not ${given}`, { field: "isolation" });
}

function checkName(given: string, field: string, longest: number): string {
  if (
    typeof given === "string" &&
    given.length <= longest &&
    /^[A-Za-z0-9_][\w.:-]*$/.test(given)
  ) {
    return given;
  }
  throw new Invalid(`${field} must be a name of letters, digits and _ . : -`, { field });
}

function checkWhole(given: number, field: string, least: number, most: number): number {
  if (Number.isInteger(given) && given >= least && given <= most) return given;
  throw new Invalid(`${field} must be a whole number from ${least} to ${most}`, { field });
}
