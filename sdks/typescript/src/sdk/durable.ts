/**
 * Durable steps, waits and children of a job: the part of `ctx` that spans its attempts.
 *
 * A step's result is stored before the handler continues, and later attempts read the stored
 * result. A wait ends the attempt and frees its slot; the next attempt passes the same call and
 * continues. Runners store the steps, and the engine ends the waits.
 */

import {
  ChildFailed,
  Conflict,
  EventTimeout,
  Invalid,
  InvalidResult,
  JobFailed,
} from "../errors.ts";
import type {
  ClaimedJob,
  Enqueued,
  EnqueueStatus,
  JobRequest,
  Json,
  JsonObject,
} from "../types/jobs.ts";
import type { Duration } from "./duration.ts";
import type { Enqueuer } from "./enqueue.ts";
import type { EndedJob, Handle } from "./handle.ts";
import {
  type Event,
  type Scalar,
  type StepKey,
  StepLog,
  type Stored,
  type Suspension,
  serializeResult,
  suspendForEvent,
  suspendForJobs,
  suspendForSleep,
  suspendUntil,
} from "./step-log.ts";

/** Sends requests of a running job to its worker, which calls the engine under the job's lease. */
export interface StepChannel {
  saveStep(name: string, index: number, result: Json): Promise<void>;
  enqueueChildren(
    name: string,
    index: number,
    jobs: readonly JobRequest[],
  ): Promise<readonly Enqueued[]>;
  /** End the attempt. */
  wait(suspension: Suspension): void;
}

/** Steps, waits and child jobs of the running job; see docs/steps.md. */
export class DurableContext<C extends StepChannel = StepChannel> {
  protected readonly job: ClaimedJob;
  protected readonly channel: C;
  #stepLog: StepLog | null = null; // created on first use, because most jobs have no steps
  #isWaiting = false;

  constructor(job: ClaimedJob, channel: C) {
    this.job = job;
    this.channel = channel;
  }

  /**
   * Call the function once in the lifetime of the job. Its result is stored before this promise
   * resolves, and later attempts return the stored result. Even the first call
   * returns the result after a round trip through JSON.
   */
  async step<A extends unknown[], R>(
    name: string,
    run: (...args: A) => R,
    ...args: A
  ): Promise<Stored<Awaited<R>>> {
    const key = this.#steps.nextKey("step", name);
    const storedResult = this.#steps.find(key);
    if (storedResult !== undefined) return storedResult as Stored<Awaited<R>>;
    return await this.#unlessWaiting(async () => {
      const document = serializeResult(key, await run(...args));
      await this.channel.saveStep(key.name, key.index, document);
      return document as Stored<Awaited<R>>;
    });
  }

  /** Continue the job in a new attempt after this time. The job holds no slot while it waits. */
  async sleep(duration: Duration): Promise<void> {
    const key = this.#steps.nextKey("sleep", "sleep");
    if (this.#steps.find(key) === undefined) await this.#wait(suspendForSleep(key, duration));
  }

  /** Continue the job in a new attempt at this time. The job holds no slot while it waits. */
  async sleepUntil(moment: Date): Promise<void> {
    const key = this.#steps.nextKey("sleep", "sleep");
    if (this.#steps.find(key) === undefined) await this.#wait(suspendUntil(key, moment));
  }

  /**
   * Wait for an event with this name whose data matches, and return it. `match` maps paths to
   * values: `{ "order.id": 7 }`. Events emitted since the job was created count, including those
   * emitted while it was queued; with `since`, events emitted after that time count. An event
   * can end only one wait of a job. The job holds no slot while it waits. Throws EventTimeout.
   */
  async waitForEvent(
    name: string,
    options: {
      readonly match?: Readonly<Record<string, Scalar>>;
      readonly timeout: Duration;
      readonly since?: Date;
    },
  ): Promise<Event> {
    const key = this.#steps.nextKey("event", name);
    const found = this.#steps.find(key);
    if (found === undefined) {
      const { match = {}, timeout, since } = options;
      return await this.#wait(suspendForEvent(key, match, timeout, since));
    }
    if (found === null) {
      throw new EventTimeout(`Event '${name}' did not arrive in time`, { detail: { event: name } });
    }
    const { id, data } = found as { readonly id: string; readonly data: JsonObject };
    return { id, name, data };
  }

  /** Enqueue a child job once in the lifetime of this job. */
  async enqueue<I, R>(definition: Enqueuer<I, R>, args: I): Promise<Handle<R>> {
    const [handle] = await this.enqueueMany(definition, [args]);
    return handle as Handle<R>;
  }

  /** Enqueue several child jobs as one step: all or none. */
  async enqueueMany<I, R>(definition: Enqueuer<I, R>, many: Iterable<I>): Promise<Handle<R>[]> {
    const requests = definition.requests(many);
    const key = this.#steps.nextKey("enqueue", definition.key);
    const enqueued = await this.#enqueueChildren(key, requests);
    return enqueued.map((job) => definition.handle(this.job.tenant_id, job));
  }

  /**
   * Wait until these jobs have finished, and return their results. This job holds no slot while it
   * waits. Throws ChildFailed for the first job that is dead or canceled. With `returnFailures`,
   * the ChildFailed error takes the place of that job's result.
   */
  gather<R>(
    handles: Iterable<Handle<R>>,
    options?: { readonly returnFailures?: false },
  ): Promise<R[]>;
  gather<R>(
    handles: Iterable<Handle<R>>,
    options: { readonly returnFailures: boolean },
  ): Promise<(R | ChildFailed)[]>;
  async gather<R>(
    handles: Iterable<Handle<R>>,
    options: { readonly returnFailures?: boolean } = {},
  ): Promise<(R | ChildFailed)[]> {
    const all = [...handles];
    if (all.length === 0) return [];
    const ids = all.map((handle) => handle.id);
    if (ids.includes(this.job.job_id)) {
      throw new Invalid("A job cannot gather itself", { field: "handles" });
    }
    const key = this.#steps.nextKey("gather", "gather");
    const found = this.#steps.find(key);
    if (found === undefined) return await this.#wait(suspendForJobs(key, ids));
    const ended = new Map(
      readGathered(found, all.length).map((each) => [each.job_id, each] as const),
    );
    const results = all.map((handle) => readChildResult(handle, ended.get(handle.id)));
    const failure = results.find((result) => result instanceof ChildFailed);
    if (failure !== undefined && !options.returnFailures) throw failure;
    return results;
  }

  get #steps(): StepLog {
    this.#stepLog ??= new StepLog(this.job.steps_json);
    return this.#stepLog;
  }

  async #enqueueChildren(
    key: StepKey,
    requests: readonly JobRequest[],
  ): Promise<readonly Enqueued[]> {
    const storedResult = this.#steps.find(key);
    if (storedResult !== undefined) {
      const pairs = storedResult as readonly (readonly [string, EnqueueStatus])[];
      return pairs.map(([job_id, status]) => ({ job_id, status }));
    }
    return await this.#unlessWaiting(() =>
      this.channel.enqueueChildren(key.name, key.index, requests),
    );
  }

  /**
   * Run `work`; never resolve if the job begins to wait in the meantime. Code that runs
   * concurrently with a wait ends with the attempt.
   */
  async #unlessWaiting<T>(work: () => Promise<T>): Promise<T> {
    if (this.#isWaiting) return await never();
    try {
      return await work();
    } finally {
      if (this.#isWaiting) await never();
    }
  }

  /**
   * Suspend the attempt with a promise that never resolves. An error would not do: the handler
   * could catch it.
   */
  async #wait(suspension: Suspension): Promise<never> {
    if (!this.#isWaiting) this.channel.wait(suspension);
    this.#isWaiting = true;
    return await never();
  }
}

function never(): Promise<never> {
  return new Promise(() => undefined);
}

interface GatheredJob {
  readonly job_id: string;
  readonly definition: string | null;
  readonly state: EndedJob["state"];
  readonly result: Json;
  readonly error: JsonObject | null;
  readonly reason: string | null;
}

function readGathered(found: Json, jobs: number): readonly GatheredJob[] {
  if (Array.isArray(found)) return found as unknown as readonly GatheredJob[];
  throw new InvalidResult(
    `The outcomes of ${jobs} jobs have more than 8 MiB of JSON text, the limit of a gather`,
    { field: "handles" },
  );
}

function readChildResult<R>(handle: Handle<R>, ended: GatheredJob | undefined): R | ChildFailed {
  if (ended === undefined) {
    throw new Conflict(`Job ${handle.id} is not among the jobs of this gather`);
  }
  try {
    return handle.readResult({ ...ended, id: handle.id, cancel_reason: ended.reason });
  } catch (error) {
    if (!(error instanceof JobFailed)) throw error;
    return new ChildFailed(error.message, { detail: error.detail });
  }
}
