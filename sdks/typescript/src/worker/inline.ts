/**
 * Runs handlers in the worker's event loop: `isolation: "inline"`. A handler cannot be killed. To
 * stop it, its signal is aborted; if it has not returned by the end of its grace period, it is
 * abandoned. Then its slot is free, its lease expires, and its outcome is not recorded.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { Invalid } from "../errors.ts";
import { jobScope } from "../redact/index.ts";
import { CURRENT_JOB } from "../sdk/call-context.ts";
import { Context } from "../sdk/context.ts";
import type { Runnable } from "../sdk/definition.ts";
import type { Suspension } from "../sdk/step-log.ts";
import {
  isFinal,
  type StopReason,
  verdictFromError,
  verdictFromInvalidResult,
  verdictFromResult,
  verdictFromWait,
} from "../sdk/verdict.ts";
import type {
  ClaimedJob,
  Enqueued,
  JobRequest,
  Json,
  JsonObject,
  NoteKind,
} from "../types/jobs.ts";
import type { JobServices } from "./job-services.ts";
import { type OnEnd, type Report, type Run, type Runner, SUCCEEDED } from "./runner-protocol.ts";

const MAX_TENANTS = 1_000;

type RunInScope = <R>(work: () => R) => R;

export class InlineRunner implements Runner {
  readonly #services: JobServices;
  readonly #tenants = new Map<string, RunInScope>();

  constructor(services: JobServices) {
    this.#services = services;
  }

  async open(): Promise<void> {}

  async close(): Promise<void> {}

  start(job: ClaimedJob, definition: Runnable, onEnd: OnEnd): Run | Report {
    const run = new InlineRun(this.#services, job, definition, onEnd);
    return run.start(this.#getScope(job)) ?? run;
  }

  /**
   * Return the scope in which the handler runs. Jobs that it enqueues inherit its tenant,
   * correlation ID and trace.
   */
  #getScope(job: ClaimedJob): RunInScope {
    if (job.correlation_id === null && job.traceparent === null)
      return this.#getTenantScope(job.tenant_id);
    const current = { tenantId: job.tenant_id, channel: null, origin: job };
    return (work) => CURRENT_JOB.run(current, work);
  }

  /**
   * Shared by all jobs of a tenant: creating a scope for each job would add about 10% to a short
   * job.
   */
  #getTenantScope(tenantId: string): RunInScope {
    const known = this.#tenants.get(tenantId);
    if (known !== undefined) return known;
    if (this.#tenants.size >= MAX_TENANTS) this.#tenants.clear();
    const inScope = CURRENT_JOB.run({ tenantId, channel: null }, () =>
      AsyncLocalStorage.snapshot(),
    );
    this.#tenants.set(tenantId, inScope);
    return inScope;
  }
}

/** One attempt: a Run for the worker, and the channel of the job's context. */
class InlineRun implements Run {
  readonly job: ClaimedJob;
  readonly #services: JobServices;
  readonly #definition: Runnable;
  readonly #context: Context;
  #onEnd: OnEnd | null;
  #stopped: StopReason | null = null;
  #grace: NodeJS.Timeout | undefined;

  constructor(services: JobServices, job: ClaimedJob, definition: Runnable, onEnd: OnEnd) {
    this.job = job;
    this.#services = services;
    this.#definition = definition;
    this.#context = new Context(job, this, services.workerId);
    this.#onEnd = onEnd;
  }

  /** Run the handler. Returns a report if the attempt has already ended. */
  start(inScope: RunInScope): Report | null {
    try {
      const result = inScope(() => toPromise(this.#definition.invoke(this.#context, this.job)));
      if (!(result instanceof Promise)) return this.#endNow(this.#reportResult(result));
      result.then(
        (result) => this.#end(this.#reportResult(result)),
        (error) => this.#end(this.#reportError(error)),
      );
      return null;
    } catch (error) {
      return this.#endNow(this.#reportError(error));
    }
  }

  get hasEnded(): boolean {
    return this.#onEnd === null;
  }

  stop(why: StopReason): void {
    if (this.#stopped === null) {
      this.#stopped = why;
      this.#grace = setTimeout(
        () => this.#end({ verdict: null }),
        this.#definition.settings.graceS * 1000,
      );
      this.#context.requestStop();
    } else if (isFinal(why) && !isFinal(this.#stopped)) {
      this.#stopped = why;
    }
  }

  extend(): void {
    // A job in this process uses the worker's own lease clock.
  }

  note(kind: NoteKind, data: JsonObject): void {
    if (this.#onEnd !== null) this.#services.note(this.job, kind, data);
  }

  async secret(name: string): Promise<string> {
    return this.#services.secret(name);
  }

  async saveStep(name: string, index: number, result: Json): Promise<void> {
    await this.#services.saveStep(this.job, name, index, result);
  }

  async enqueueChildren(
    name: string,
    index: number,
    jobs: readonly JobRequest[],
  ): Promise<readonly Enqueued[]> {
    return await this.#services.enqueueChildren(this.job, name, index, jobs);
  }

  wait(suspension: Suspension): void {
    // Deferred, because the caller of `start` must know the run before it ends.
    queueMicrotask(() => this.#end({ verdict: verdictFromWait(suspension) }));
  }

  /** Prevent code that the handler left running from ending the run again. */
  #endNow(report: Report): Report {
    this.#onEnd = null;
    return report;
  }

  #end(report: Report): void {
    clearTimeout(this.#grace);
    const onEnd = this.#onEnd;
    this.#onEnd = null;
    onEnd?.(this.job, report);
  }

  #reportResult(result: unknown): Report {
    try {
      const dumped = this.#definition.dump(this.#context, result);
      return dumped === undefined ? SUCCEEDED : { verdict: verdictFromResult(dumped) };
    } catch (error) {
      return error instanceof Invalid
        ? { verdict: verdictFromInvalidResult(error, jobScope(this.job)) }
        : this.#reportError(error);
    }
  }

  #reportError(error: unknown): Report {
    if (this.#stopped === "lost") return { verdict: null };
    const { settings } = this.#definition;
    return { verdict: verdictFromError(error, settings, this.#stopped, jobScope(this.job)) };
  }
}

/**
 * Convert thenables to promises. Query builders are thenables that start only when they are
 * awaited.
 */
function toPromise(result: unknown): unknown {
  const isThenable =
    typeof result === "object" &&
    result !== null &&
    "then" in result &&
    typeof result.then === "function";
  return isThenable ? Promise.resolve(result) : result;
}
