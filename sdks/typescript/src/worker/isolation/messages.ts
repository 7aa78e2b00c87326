/** The messages between the worker and a job's process. */

import {
  type ClaimedJob,
  type Enqueued,
  type JobRequest,
  type Json,
  type JsonObject,
  NOTE_KINDS,
  type NoteKind,
  OUTCOMES,
  type Verdict,
} from "../../types/jobs.ts";

/** Messages from the worker. */
export type WorkerMessage =
  | {
      readonly kind: "job";
      readonly job: ClaimedJob;
      readonly workerId: string;
      readonly folder: string;
      readonly environment: readonly string[];
    }
  | { readonly kind: "stop" }
  | { readonly kind: "answer"; readonly id: number; readonly value: ResponseValue }
  | { readonly kind: "refusal"; readonly id: number; readonly refusal: RequestError };

/** A secret, the enqueued jobs, or null for a stored step. */
export type ResponseValue = string | readonly Enqueued[] | null;

/** Messages from the job's process. */
export type JobMessage =
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
  | { readonly kind: "verdict"; readonly verdict: Verdict; readonly used: ResourceUsage };

/** An error as a message. The receiver finds its class by the code. */
export interface RequestError {
  readonly code: string;
  readonly message: string;
  readonly field?: string | undefined;
}

export interface ResourceUsage {
  readonly cpu_ms: number;
  readonly peak_memory_bytes: number;
}

/** The file descriptor of the socket for messages. */
export const MESSAGE_FD = 3;
/** The file descriptor on which the watchdog receives the deadlines of the lease. */
export const DEADLINE_FD = 4;

/**
 * The maximum number of requests without a response. The job's process delays further requests, so
 * only code that writes to the socket itself exceeds this number.
 */
export const MAX_OPEN_REQUESTS = 16;
/** The worker keeps notes in memory until they are stored; the engine stores 64 KiB of each. */
export const MAX_NOTE_BYTES = 1024 ** 2;

/**
 * Return the document as a message from a job's process, or null if it is not valid. The engine
 * would reject the whole batch, with other jobs' notes or steps, for one invalid note or step.
 */
export function toJobMessage(document: unknown, length: number): JobMessage | null {
  if (!isObject(document)) return null;
  const { kind, note, data, id, name, index, jobs, verdict, used } = document;
  const isStep = typeof name === "string" && Number.isSafeInteger(index);
  const validators: Readonly<Record<string, () => boolean>> = {
    ready: () => true,
    note: () => length <= MAX_NOTE_BYTES && isOneOf(NOTE_KINDS, note) && isObject(data),
    secret: () => Number.isSafeInteger(id) && typeof name === "string",
    enqueue: () => Number.isSafeInteger(id) && areObjects(jobs),
    step: () => Number.isSafeInteger(id) && isStep,
    children: () => Number.isSafeInteger(id) && isStep && areObjects(jobs),
    verdict: () => isObject(used) && isObject(verdict) && isOneOf(OUTCOMES, verdict.outcome),
  };
  if (typeof kind !== "string" || !Object.hasOwn(validators, kind)) return null;
  return validators[kind]?.() ? (document as unknown as JobMessage) : null;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function areObjects(values: unknown): boolean {
  return Array.isArray(values) && values.every(isObject);
}

function isOneOf(values: readonly string[], value: unknown): boolean {
  return typeof value === "string" && values.includes(value);
}
