/** What a worker and the process of a job say to each other. */

import type { Verdict } from "../../sdk/verdict.ts";
import type {
  ClaimedJob,
  Enqueued,
  JobRequest,
  Json,
  JsonObject,
  NoteKind,
} from "../../types/jobs.ts";

/** From the worker. */
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

/** A secret, jobs that were enqueued, or that a step is stored. */
export type ResponseValue = string | readonly Enqueued[] | null;

/** From the process. */
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

/** An error that has to cross: by its code it becomes the same class again. */
export interface RequestError {
  readonly code: string;
  readonly message: string;
  readonly field?: string | undefined;
}

export interface ResourceUsage {
  readonly cpu_ms: number;
  readonly peak_memory_bytes: number;
}

/** The descriptor on which the watchdog hears until when the lease lasts. */
export const DEADLINE_FD = 4;
