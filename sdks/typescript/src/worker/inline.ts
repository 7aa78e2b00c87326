/**
 * Running handlers in the worker's own loop: `isolation: "inline"`. A handler cannot be killed: its
 * signal is aborted, and when it has not ended by the end of its grace it is abandoned. Its slot is
 * free then, its lease is let run out, and nothing it does is recorded.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { Invalid } from "../errors.ts";
import { jobScope } from "../redact/index.ts";
import { Context } from "../sdk/context.ts";
import type { Runnable } from "../sdk/definition.ts";
import { CURRENT_JOB } from "../sdk/job-scope.ts";
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
import {
  type JobServices,
  type OnEnd,
  type Report,
  type Run,
  type Runner,
  SUCCEEDED,
} from "./runner.ts";

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

  /** What it enqueues is of its tenant, and of its correlation and trace where it has them. */
  #getScope(job: ClaimedJob): RunInScope {
    if (job.correlation_id === null && job.traceparent === null)
      return this.#getTenantScope(job.tenant_id);
    const current = { tenantId: job.tenant_id, channel: null, origin: job };
    return (work) => CURRENT_JOB.run(current, work);
  }

  /** Kept for all jobs of a tenant: to make one costs a tenth of a short job. */
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

/** One attempt: what the worker can stop, and the channel of its context. */
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

  /** A report if it has ended already. */
  start(inScope: RunInScope): Report | null {
    try {
      const answer = inScope(() => toPromise(this.#definition.invoke(this.#context, this.job)));
      if (!(answer instanceof Promise)) return this.#endNow(this.#reportResult(answer));
      answer.then(
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
    // What runs in this process sees the worker's own clock.
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
    // Whoever starts it has to know of the run before it ends.
    queueMicrotask(() => this.#end({ verdict: verdictFromWait(suspension) }));
  }

  /** Nothing that it left behind ends it again. */
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

/** Query builders are awaited as promises are, and do nothing before, but are none. */
function toPromise(answer: unknown): unknown {
  const isThenable =
    typeof answer === "object" &&
    answer !== null &&
    "then" in answer &&
    typeof answer.then === "function";
  return isThenable ? Promise.resolve(answer) : answer;
}
