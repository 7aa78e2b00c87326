/** A handle of a job: its state, waiting for its result, and actions on it. */

import { setTimeout as pause } from "node:timers/promises";
import type { z } from "zod";
import { Invalid, JobFailed, WaitTimeout } from "../errors.ts";
import {
  type EnqueueStatus,
  type Explanation,
  FINAL_STATES,
  type Job,
  type JobEvent,
  type Json,
  type JsonObject,
  type State,
} from "../types/jobs.ts";
import { type Duration, seconds } from "./duration.ts";
import type { EngineClient } from "./engine-client.ts";
import { isArtifactReference } from "./parameters.ts";

/**
 * The fields of a finished job that results are read from. After retention removed the job, `state`
 * is null.
 */
export interface EndedJob {
  readonly id: string;
  readonly definition: string | null;
  readonly state: Job["state"] | null;
  readonly result: Json;
  readonly error: JsonObject | null;
  readonly cancel_reason: string | null;
}

const MIN_PAUSE_S = 0.01;
const MAX_PAUSE_S = 1;

/**
 * A handle of a job. While you wait, it polls the database at growing intervals and keeps
 * no connection open. A job that you enqueued in your transaction exists only after the commit.
 */
export class Handle<R> {
  readonly id: string;
  readonly tenantId: string;
  /** Whether the job was created, existed already, or was replaced. */
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

  /**
   * Return the job in its current state. Throws NotFound before its transaction commits, and after
   * retention has deleted the job.
   */
  async job(): Promise<Job> {
    return await this.#client.getJob(this.id, this.tenantId);
  }

  /**
   * Wait until the job has finished, and return it. Throws WaitTimeout if the timeout expires
   * first.
   */
  async wait(
    options: { readonly timeout?: Duration; readonly signal?: AbortSignal } = {},
  ): Promise<Job> {
    const timeoutS =
      options.timeout === undefined
        ? Number.POSITIVE_INFINITY
        : seconds(options.timeout, "timeout");
    const deadline = performance.now() + timeoutS * 1000;
    for (let pauseS = MIN_PAUSE_S; ; pauseS = Math.min(pauseS * 1.5, MAX_PAUSE_S)) {
      const job = await this.job();
      if ((FINAL_STATES as readonly string[]).includes(job.state)) return job;
      const leftMs = deadline - performance.now();
      if (leftMs <= 0) {
        throw new WaitTimeout(`Job ${this.id} did not finish within ${timeoutS} s`, {
          detail: { job_id: this.id },
        });
      }
      // Jitter, so that many waits for jobs of one batch do not poll at the same time.
      const restMs = pauseS * (800 + 400 * Math.random());
      await pause(Math.min(restMs, leftMs), undefined, { signal: options.signal });
    }
  }

  /**
   * Wait for the job and return the handler's result. Throws JobFailed if the job did not succeed.
   */
  async result(
    options: { readonly timeout?: Duration; readonly signal?: AbortSignal } = {},
  ): Promise<R> {
    return this.readResult(await this.wait(options));
  }

  /**
   * Cancel the job; a dead job is discarded. Returns `canceling` while a worker stops the job.
   * Throws Conflict if the job has succeeded.
   */
  async cancel(reason?: string): Promise<State> {
    const given = { tenant: this.tenantId, ...(reason === undefined ? {} : { reason }) };
    return await this.#client.cancelJob(this.id, given);
  }

  /**
   * Run a dead, finished or delayed job again, and return the handle of the job that will run. For
   * a finished job, or with `payload`, that is a new job. Throws Conflict if the job is queued,
   * blocked or running.
   */
  async retry(
    options: { readonly payload?: JsonObject; readonly attempts?: number } = {},
  ): Promise<Handle<R>> {
    const id = await this.#client.retryJob(this.id, { ...options, tenant: this.tenantId });
    if (id === this.id) return this;
    return new Handle(this.#client, this.#result, this.tenantId, { job_id: id, status: "created" });
  }

  /**
   * Change the earliest start of a job that has not started; null means as soon as possible. Throws
   * Conflict if the job is running or has finished.
   */
  async reschedule(at: Date | null): Promise<State> {
    return await this.#client.rescheduleJob(this.id, at, this.tenantId);
  }

  /** Return the reasons why the job does not run, the decisive one first. */
  async explain(): Promise<Explanation[]> {
    return await this.#client.explainJob(this.id, this.tenantId);
  }

  /** Return the job's log lines, oldest first: those later than `after`, at most `limit`. */
  async logs(
    options: { readonly after?: string; readonly limit?: number } = {},
  ): Promise<JobEvent[]> {
    return await this.#client.listLogs(this.id, { ...options, tenant: this.tenantId });
  }

  /** Return the result of a finished job. Throws JobFailed if it did not succeed. */
  readResult(job: EndedJob): R {
    if (job.state !== "succeeded") throw jobFailedError(job);
    if (isArtifactReference(job.result)) {
      throw new Invalid(
        `The result of job ${this.id} is in the artifact store, which only Python can read`,
        {
          field: "result",
          detail: { job_id: this.id },
          hint: "Read it with Python, GET /jobs/{job_id}/artifact or `jobforge jobs artifact`",
        },
      );
    }
    if (this.#result === undefined) return job.result as R;
    const read = this.#result.safeParse(job.result);
    if (read.success) return read.data;
    throw new Invalid(`The result of job ${this.id} does not match the type of ${job.definition}`, {
      field: "result",
      cause: read.error,
    });
  }
}

function jobFailedError(job: EndedJob): JobFailed {
  if (job.state === null) {
    return new JobFailed(`Job ${job.id} was removed by retention`, { detail: { job_id: job.id } });
  }
  const reason = job.state === "canceled" ? job.cancel_reason : job.error?.message;
  return new JobFailed(
    `Job ${job.id} of ${job.definition} is ${job.state}: ${reason ?? "unknown reason"}`,
    { detail: { job_id: job.id, state: job.state, error: job.error } },
  );
}
