/**
 * Steps that earlier attempts of a job stored, and the waits that suspend an attempt.
 *
 * A step is identified by its kind, its name, and its number among the steps of that name. So only
 * the order of calls with equal names matters. Runners store the steps, and the engine ends the
 * waits.
 */

import { Invalid, InvalidResult } from "../errors.ts";
import type { Json, JsonObject } from "../types/jobs.ts";
import { encode } from "../types/jsonb.ts";
import { type Duration, seconds } from "./duration.ts";

const MAX_NAME_LENGTH = 200;
const MAX_WAIT_S = 366 * 86_400;
// At most the engine's limits.
const MAX_RESULT_BYTES = 1024 ** 2;
const MAX_MATCH_BYTES = 2_000;
const MAX_JOBS = 10_000;

export interface StepKey {
  readonly kind: "step" | "sleep" | "event" | "enqueue" | "gather";
  readonly name: string;
  readonly index: number;
}

/**
 * Ends an attempt until a time, or until the engine ends the wait. Either `delayS` or `runAt` is
 * set.
 */
export interface Suspension {
  readonly wait: JsonObject;
  readonly delayS?: number;
  readonly runAt?: string;
}

/** An event that a job waited for. */
export interface Event {
  readonly id: string;
  readonly name: string;
  readonly data: JsonObject;
}

/** The type of a step's result after JobForge has stored it as JSON. */
export type Stored<T> = T extends string | number | boolean | null
  ? T
  : T extends undefined
    ? null
    : T extends { toJSON(): infer J }
      ? Stored<J>
      : T extends object
        ? { [K in keyof T]: Stored<Exclude<T[K], undefined>> }
        : T;

/**
 * The steps of one job: stored results by key, and the number of calls that this attempt has made
 * for each name.
 */
export class StepLog {
  readonly #results = new Map<string, Json>();
  readonly #counts = new Map<string, number>();

  constructor(stepsJson: string | null) {
    const stored = JSON.parse(stepsJson ?? "[]") as (StepKey & { readonly result: Json })[];
    for (const step of stored) this.#results.set(toMapKey(step), step.result);
  }

  /** Return the stored result, or undefined if the step has not been completed. */
  find(key: StepKey): Json | undefined {
    return this.#results.get(toMapKey(key));
  }

  /** Return the key of the next step with this name. */
  nextKey(kind: StepKey["kind"], name: string): StepKey {
    const length = [...name].length;
    if (length < 1 || length > MAX_NAME_LENGTH || name.includes("\n")) {
      throw new Invalid(`name must be one line of 1 to ${MAX_NAME_LENGTH} characters`, {
        field: "name",
      });
    }
    const nameKey = `${kind} ${name}`;
    const index = this.#counts.get(nameKey) ?? 0;
    this.#counts.set(nameKey, index + 1);
    return { kind, name, index };
  }
}

export function suspendForSleep(key: StepKey, duration: Duration): Suspension {
  return { wait: { ...key }, delayS: readWaitTime(duration, "duration") };
}

export function suspendUntil(key: StepKey, moment: Date): Suspension {
  if (!(moment instanceof Date) || Number.isNaN(moment.getTime())) {
    throw new Invalid("until must be a valid Date", { field: "moment" });
  }
  return { wait: { ...key }, runAt: moment.toISOString() };
}

export function suspendForEvent(
  key: StepKey,
  match: Readonly<Record<string, Scalar>>,
  timeout: Duration,
  since?: Date,
): Suspension {
  if (since !== undefined && Number.isNaN(since.getTime())) {
    throw new Invalid("since must be a valid Date", { field: "since" });
  }
  const nested = nestMatch(match);
  if (Buffer.byteLength(encode(nested, "match")) > MAX_MATCH_BYTES) {
    throw new Invalid(`match must have at most ${MAX_MATCH_BYTES} bytes of JSON`, {
      field: "match",
    });
  }
  const sinceField = since === undefined ? {} : { since: since.getTime() / 1000 };
  return {
    wait: { ...key, match: nested, ...sinceField },
    delayS: readWaitTime(timeout, "timeout"),
  };
}

export function suspendForJobs(key: StepKey, jobIds: Iterable<string>): Suspension {
  const jobs = [...new Set(jobIds)];
  if (jobs.length > MAX_JOBS) {
    throw new Invalid(`A gather can wait for at most ${MAX_JOBS} jobs`, { field: "handles" });
  }
  return { wait: { ...key, jobs }, delayS: 0 };
}

/** A value that `waitForEvent` compares. */
export type Scalar = string | number | boolean | null;
type Members = { [name: string]: Scalar | Members };

/**
 * Return `{"order.id": 7}` as the nested form `{"order": {"id": 7}}`, which the event's data must
 * contain.
 */
export function nestMatch(match: Readonly<Record<string, Scalar>>): JsonObject {
  const found = createMembers();
  for (const [path, value] of Object.entries(match)) {
    if (value !== null && !["string", "number", "boolean"].includes(typeof value)) {
      throw new Invalid(`${path} must be a string, a number, true, false or null`, {
        field: "match",
      });
    }
    const outer = path.split(".");
    const last = outer.pop() ?? "";
    let inner: Members = found;
    for (const name of outer) {
      const next = inner[name] ?? createMembers();
      if (name in inner && !isMembers(next)) throw overlapError(path);
      inner[name] = next;
      inner = next as Members;
    }
    if (last in inner) throw overlapError(path);
    inner[last] = value;
  }
  return found;
}

/**
 * Return the result as JSON. Throws InvalidResult if it cannot be stored, because each retry would
 * run the step again.
 */
export function serializeResult(key: StepKey, result: unknown): Json {
  const label = `The result of step ${labelOf(key)}`;
  const text = encodeResult(label, result ?? null);
  const size = Buffer.byteLength(text);
  if (size > MAX_RESULT_BYTES) {
    throw new InvalidResult(
      `${label} has ${size} bytes of JSON; the limit is ${MAX_RESULT_BYTES}.` +
        " Store it elsewhere, and return a reference",
      { field: "result", detail: { limit: MAX_RESULT_BYTES, size } },
    );
  }
  return JSON.parse(text) as Json;
}

function encodeResult(label: string, result: unknown): string {
  try {
    return encode(result, label);
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    throw new InvalidResult(error.message, { field: "result", cause: error });
  }
}

function labelOf({ name, index }: StepKey): string {
  return index === 0 ? name : `${name} (${index + 1})`;
}

function toMapKey({ kind, name, index }: StepKey): string {
  return `${kind} ${index} ${name}`;
}

function readWaitTime(duration: Duration, field: string): number {
  const given = seconds(duration, field);
  if (given > MAX_WAIT_S) {
    throw new Invalid("A job can wait for at most 366 days at a time", { field });
  }
  return given;
}

/** Objects without a prototype, because a path may contain any name, such as `__proto__`. */
function createMembers(): Members {
  return Object.create(null) as Members;
}

function isMembers(value: Scalar | Members): value is Members {
  return typeof value === "object" && value !== null;
}

function overlapError(path: string): Invalid {
  return new Invalid(`${path} is inside another path of the match`, { field: "match" });
}
