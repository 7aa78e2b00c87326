/** The messages between the worker and a job's process. */

import type { Verdict } from "../../sdk/verdict.ts";
import type {
  ClaimedJob,
  Enqueued,
  JobRequest,
  Json,
  JsonObject,
  NoteKind,
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

/** The file descriptor on which the watchdog receives the deadlines of the lease. */
export const DEADLINE_FD = 4;
