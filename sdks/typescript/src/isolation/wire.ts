/** What a worker and the process of a job say to each other. */

import type {
  ClaimedJob,
  Enqueued,
  JobRequest,
  Json,
  JsonObject,
  NoteKind,
  Outcome,
} from "../job.ts";
import type { Verdict } from "../verdict.ts";

/** From the worker. */
export type Order =
  | {
      readonly kind: "job";
      readonly job: ClaimedJob;
      readonly workerId: string;
      readonly folder: string;
      readonly environment: readonly string[];
    }
  | { readonly kind: "stop" }
  | { readonly kind: "answer"; readonly id: number; readonly value: Answer }
  | { readonly kind: "refusal"; readonly id: number; readonly refusal: Refusal };

/** A secret, jobs that were enqueued, or that a step is stored. */
export type Answer = string | readonly Enqueued[] | null;

/** From the process. */
export type Word =
  | { readonly kind: "ready" }
  | { readonly kind: "note"; readonly note: NoteKind; readonly data: JsonObject }
  | { readonly kind: "secret"; readonly id: number; readonly name: string }
  | { readonly kind: "enqueue"; readonly id: number; readonly jobs: readonly JobRequest[] }
  | {
      readonly kind: "step";
      readonly id: number;
      readonly name: string;
      readonly index: number;
      readonly result: Json;
    }
  | {
      readonly kind: "children";
      readonly id: number;
      readonly name: string;
      readonly index: number;
      readonly jobs: readonly JobRequest[];
    }
  | { readonly kind: "verdict"; readonly verdict: Verdict; readonly used: Used };

/** An error that has to cross: by its code it becomes the same class again. */
export interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly field?: string | undefined;
}

export interface Used {
  readonly cpu_ms: number;
  readonly peak_memory_bytes: number;
}

/** The descriptor of the socket for orders and words. */
export const MESSAGES = 3;
/** The descriptor on which the watchdog hears until when the lease lasts. */
export const DEADLINES = 4;

/**
 * How many questions a job may have open at once. Its process keeps the others back, so that only
 * code that writes to the socket itself exceeds this number.
 */
export const MOST_QUESTIONS = 16;
/** In bytes. The worker keeps notes until they are stored; the engine stores 64 KiB of each. */
export const LONGEST_NOTE = 1024 ** 2;

const OUTCOMES: readonly unknown[] = [
  "succeeded",
  "failed",
  "timed_out",
  "crashed",
  "canceled",
  "released",
  "snoozed",
] satisfies Outcome[];
const NOTES: readonly unknown[] = ["progress", "log", "event"] satisfies NoteKind[];

/**
 * Return the document if it is a word that a job's process sends. A note or step that the engine
 * refuses would take those of other jobs along.
 */
export function wordOf(document: unknown, length: number): Word | null {
  if (!isObject(document)) return null;
  const { kind, note, data, id, name, index, jobs, verdict, used } = document;
  const isStep = typeof name === "string" && Number.isSafeInteger(index);
  const isRight: Readonly<Record<string, () => boolean>> = {
    ready: () => true,
    note: () => length <= LONGEST_NOTE && NOTES.includes(note) && isObject(data),
    secret: () => Number.isSafeInteger(id) && typeof name === "string",
    enqueue: () => Number.isSafeInteger(id) && areObjects(jobs),
    step: () => Number.isSafeInteger(id) && isStep,
    children: () => Number.isSafeInteger(id) && isStep && areObjects(jobs),
    verdict: () => isObject(used) && isObject(verdict) && OUTCOMES.includes(verdict.outcome),
  };
  if (typeof kind !== "string" || !Object.hasOwn(isRight, kind)) return null;
  return isRight[kind]?.() ? (document as unknown as Word) : null;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function areObjects(values: unknown): boolean {
  return Array.isArray(values) && values.every(isObject);
}
