/**
 * What a job has done in earlier attempts, as the next one finds it, and what it waits for.
 *
 * A step is known by its kind, its name, and its turn among those of that name: the order of calls
 * in the handler is all that counts, and only for equal names. Storing steps is left to whoever runs
 * the job, waiting to the engine.
 */

import { Invalid, InvalidResult } from "../errors.ts";
import type { Json, JsonObject } from "../types/jobs.ts";
import { encode } from "../types/jsonb.ts";
import { type Duration, seconds } from "./duration.ts";

const LONGEST_NAME = 200;
const LONGEST_WAIT_S = 366 * 86_400;
// As the engine has them, or less.
const LARGEST_RESULT = 1024 ** 2;
const LARGEST_MATCH = 2_000;
const MOST_JOBS = 10_000;

export interface StepKey {
  readonly kind: "step" | "sleep" | "event" | "enqueue" | "gather";
  readonly name: string;
  readonly index: number;
}

/** What ends an attempt, so that another goes on when it has come. One of the times is set. */
export interface Waiting {
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

/** A value as it comes back from the store, where it was JSON. */
export type Stored<T> = T extends string | number | boolean | null
  ? T
  : T extends undefined
    ? null
    : T extends { toJSON(): infer J }
      ? Stored<J>
      : T extends object
        ? { [K in keyof T]: Stored<Exclude<T[K], undefined>> }
        : T;

/** Those of one job: stored ones by their key, and how many this attempt has come to. */
export class Steps {
  readonly #results = new Map<string, Json>();
  readonly #turns = new Map<string, number>();

  constructor(stepsJson: string | null) {
    const stored = JSON.parse(stepsJson ?? "[]") as (StepKey & { readonly result: Json })[];
    for (const step of stored) this.#results.set(identity(step), step.result);
  }

  /** What it came to; undefined when it has not been done. */
  find(key: StepKey): Json | undefined {
    return this.#results.get(identity(key));
  }

  /** The key of the next step of that name. */
  begin(kind: StepKey["kind"], name: string): StepKey {
    const length = [...name].length;
    if (length < 1 || length > LONGEST_NAME || name.includes("\n")) {
      throw new Invalid(`the name of a step is a line of 1 to ${LONGEST_NAME} letters`, {
        field: "name",
      });
    }
    const turn = `${kind} ${name}`;
    const index = this.#turns.get(turn) ?? 0;
    this.#turns.set(turn, index + 1);
    return { kind, name, index };
  }
}

export function sleeping(key: StepKey, duration: Duration): Waiting {
  return { wait: { ...key }, delayS: bounded(duration, "duration") };
}

export function sleepingUntil(key: StepKey, moment: Date): Waiting {
  if (!(moment instanceof Date) || Number.isNaN(moment.getTime())) {
    throw new Invalid("a moment to sleep until is a Date", { field: "moment" });
  }
  return { wait: { ...key }, runAt: moment.toISOString() };
}

export function waitingForEvent(
  key: StepKey,
  match: Readonly<Record<string, Scalar>>,
  timeout: Duration,
  since?: Date,
): Waiting {
  if (since !== undefined && Number.isNaN(since.getTime())) {
    throw new Invalid("since must be a valid Date", { field: "since" });
  }
  const wanted = nested(match);
  if (Buffer.byteLength(encode(wanted, "match")) > LARGEST_MATCH) {
    throw new Invalid(`a match has at most ${LARGEST_MATCH} bytes of JSON`, { field: "match" });
  }
  const counted = since === undefined ? {} : { since: since.getTime() / 1000 };
  return { wait: { ...key, match: wanted, ...counted }, delayS: bounded(timeout, "timeout") };
}

export function waitingForJobs(key: StepKey, jobIds: Iterable<string>): Waiting {
  const jobs = [...new Set(jobIds)];
  if (jobs.length > MOST_JOBS) {
    throw new Invalid(`a gather waits for at most ${MOST_JOBS} jobs`, { field: "handles" });
  }
  return { wait: { ...key, jobs }, delayS: 0 };
}

export type Scalar = string | number | boolean | null;
type Members = { [name: string]: Scalar | Members };

/** `{"order.id": 7}` as what the event's data must contain: `{"order": {"id": 7}}`. */
export function nested(match: Readonly<Record<string, Scalar>>): JsonObject {
  const found = members();
  for (const [path, value] of Object.entries(match)) {
    if (value !== null && !["string", "number", "boolean"].includes(typeof value)) {
      throw new Invalid(`${path} can match a text, a number, true, false or null`, {
        field: "match",
      });
    }
    const outer = path.split(".");
    const last = outer.pop() ?? "";
    let inner: Members = found;
    for (const name of outer) {
      const next = inner[name] ?? members();
      if (name in inner && !isMembers(next)) throw overlapping(path);
      inner[name] = next;
      inner = next as Members;
    }
    if (last in inner) throw overlapping(path);
    inner[last] = value;
  }
  return found;
}

/** The result as JSON; InvalidResult when it cannot be kept, and so would run again for ever. */
export function written(key: StepKey, result: unknown): Json {
  const label = `the result of step ${labelOf(key)}`;
  const text = writtenText(label, result ?? null);
  const size = Buffer.byteLength(text);
  if (size > LARGEST_RESULT) {
    throw new InvalidResult(
      `${label} has ${size} bytes of JSON, and a step keeps at most ${LARGEST_RESULT}:` +
        " store it elsewhere, and return where",
      { field: "result", detail: { limit: LARGEST_RESULT, size } },
    );
  }
  return JSON.parse(text) as Json;
}

function writtenText(label: string, result: unknown): string {
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

function identity({ kind, name, index }: StepKey): string {
  return `${kind} ${index} ${name}`;
}

function bounded(duration: Duration, field: string): number {
  const given = seconds(duration, field);
  if (given > LONGEST_WAIT_S) {
    throw new Invalid("a job waits for at most 366 days at a time", { field });
  }
  return given;
}

/** Without a prototype: a path may have any name. */
function members(): Members {
  return Object.create(null) as Members;
}

function isMembers(value: Scalar | Members): value is Members {
  return typeof value === "object" && value !== null;
}

function overlapping(path: string): Invalid {
  return new Invalid(`${path} lies within another path of the match`, { field: "match" });
}
