/** A job that was enqueued: its id, and waiting for its end. */

import { setTimeout as pause } from "node:timers/promises";
import type { z } from "zod";
import { Invalid, JobFailed, WaitTimeout } from "../errors.ts";
import {
  type EnqueueStatus,
  FINAL_STATES,
  type Job,
  type Json,
  type JsonObject,
} from "../types/jobs.ts";
import { type Duration, seconds } from "./duration.ts";
import type { EngineClient } from "./engine-client.ts";
import { isArtifactReference } from "./parameters.ts";

/** What a job that has ended is asked for. Past retention it has no state. */
export interface EndedJob {
  readonly id: string;
  readonly definition: string | null;
  readonly state: Job["state"] | null;
  readonly result: Json;
  readonly error: JsonObject | null;
  readonly cancel_reason: string | null;
}

const FIRST_PAUSE_S = 0.01;
const LONGEST_PAUSE_S = 1;

/**
 * Waiting asks the database again and again, less and less often; it keeps nothing open. A job that
 * was enqueued in a transaction of the caller's own exists only once that has committed.
 */
export class Handle<R> {
  readonly id: string;
  readonly tenantId: string;
  readonly status: EnqueueStatus;
  readonly #client: EngineClient;
  readonly #result: z.ZodType<R> | undefined;

  constructor(
    client: EngineClient,
    result: z.ZodType<R> | undefined,
    tenantId: string,
    job: { readonly job_id: string; readonly status: EnqueueStatus },
  ) {
    this.#client = client;
    this.#result = result;
    this.tenantId = tenantId;
    this.id = job.job_id;
    this.status = job.status;
  }

  /** The job as it is now; NotFound before its transaction commits and after retention. */
  async job(): Promise<Job> {
    return await this.#client.getJob(this.id, this.tenantId);
  }

  /** The job once it has succeeded, died or been canceled; WaitTimeout before that. */
  async wait(
    options: { readonly timeout?: Duration; readonly signal?: AbortSignal } = {},
  ): Promise<Job> {
    const timeoutS =
      options.timeout === undefined
        ? Number.POSITIVE_INFINITY
        : seconds(options.timeout, "timeout");
    const deadline = performance.now() + timeoutS * 1000;
    for (let pauseS = FIRST_PAUSE_S; ; pauseS = Math.min(pauseS * 1.5, LONGEST_PAUSE_S)) {
      const job = await this.job();
      if ((FINAL_STATES as readonly string[]).includes(job.state)) return job;
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) {
        throw new WaitTimeout(`job ${this.id} has not ended within ${timeoutS} s`, {
          detail: { job_id: this.id },
        });
      }
      // Many that wait for jobs of one batch should not ask in step.
      const restMs = pauseS * (800 + 400 * Math.random());
      await pause(Math.min(restMs, leftMs), undefined, { signal: options.signal });
    }
  }

  /** What the handler returned; JobFailed when it did not. */
  async result(
    options: { readonly timeout?: Duration; readonly signal?: AbortSignal } = {},
  ): Promise<R> {
    return this.readResult(await this.wait(options));
  }

  /** What a job that has ended returned; JobFailed when it did not. */
  readResult(job: EndedJob): R {
    if (job.state !== "succeeded") throw jobFailedError(job);
    if (isArtifactReference(job.result)) {
      throw new Invalid(
        `the result of job ${this.id} is in the artifact store, which only Python reads`,
        {
          field: "result",
          detail: { job_id: this.id },
          hint: "Read it with Python, GET /jobs/{job_id}/artifact or `jobforge jobs artifact`.",
        },
      );
    }
    if (this.#result === undefined) return job.result as R;
    const read = this.#result.safeParse(job.result);
    if (read.success) return read.data;
    throw new Invalid(`the result of job ${this.id} is not what ${job.definition} returns now`, {
      field: "result",
      cause: read.error,
    });
  }
}

function jobFailedError(job: EndedJob): JobFailed {
  if (job.state === null) {
    return new JobFailed(`job ${job.id} is not known any more`, { detail: { job_id: job.id } });
  }
  const reason = job.state === "canceled" ? job.cancel_reason : job.error?.message;
  return new JobFailed(
    `job ${job.id} of ${job.definition} is ${job.state}: ${reason ?? "no reason is known"}`,
    { detail: { job_id: job.id, state: job.state, error: job.error } },
  );
}
