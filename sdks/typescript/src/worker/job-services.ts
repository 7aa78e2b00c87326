/**
 * What a worker offers to its running jobs: notes, steps, secrets, and jobs that they enqueue. A
 * job's requests run for its own tenant.
 */

import { enqueueChildren, enqueueJobs } from "../calls/index.ts";
import type { Database } from "../db/database.ts";
import { emit, isEnabled, jobFields } from "../observability/logs.ts";
import { inheritFields } from "../sdk/call-context.ts";
import type { Secrets } from "../security/secret-lookup.ts";
import type {
  ClaimedJob,
  Enqueued,
  JobRequest,
  Json,
  JsonObject,
  NoteKind,
} from "../types/jobs.ts";
import type { NoteBuffer } from "./notes.ts";
import type { StepWriter } from "./step-writer.ts";

/** The components of the worker that serve its jobs. */
export interface ServiceParts {
  readonly workerId: string;
  readonly database: Database;
  readonly notes: NoteBuffer;
  readonly steps: StepWriter;
  readonly secrets: Secrets;
  /** Called after adding a note. */
  readonly onNote: () => void;
  /** Called after adding a step. */
  readonly onStep: () => void;
}

export class JobServices {
  readonly workerId: string;
  readonly #parts: ServiceParts;

  constructor(parts: ServiceParts) {
    this.workerId = parts.workerId;
    this.#parts = parts;
  }

  /**
   * Store a note with the next batch. Of several progress reports of a job, only the latest is
   * stored.
   */
  note(job: ClaimedJob, kind: NoteKind, data: JsonObject): void {
    this.#parts.notes.add(job, kind, data);
    this.#parts.onNote();
    if (isEnabled("debug")) emit(`job.${kind}`, { ...jobFields(job), data }, "debug");
  }

  /** Enqueue jobs for the job's tenant. They inherit its correlation ID and trace. */
  async enqueue(job: ClaimedJob, jobs: readonly JobRequest[]): Promise<readonly Enqueued[]> {
    const call = enqueueJobs(inheritFields(job, jobs));
    return await this.#parts.database.runFor(job.tenant_id, call);
  }

  /** Resolves when the step is stored. Rejects with LeaseLost or InvalidResult. */
  async saveStep(job: ClaimedJob, name: string, index: number, result: Json): Promise<void> {
    const stored = this.#parts.steps.add(job, name, index, result);
    this.#parts.onStep();
    await stored;
  }

  /** Enqueue jobs as a step: stored together with the step, or not at all. */
  async enqueueChildren(
    job: ClaimedJob,
    name: string,
    index: number,
    jobs: readonly JobRequest[],
  ): Promise<readonly Enqueued[]> {
    const call = enqueueChildren(this.workerId, job, name, index, inheritFields(job, jobs));
    return await this.#parts.database.runFor(job.tenant_id, call);
  }

  /** Return a secret and redact it in logs from now on. Throws NotFound. */
  secret(name: string): string {
    return this.#parts.secrets.lookup(name);
  }
}
