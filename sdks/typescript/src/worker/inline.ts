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
import { CURRENT } from "../sdk/job-scope.ts";
import type { Waiting } from "../sdk/step-log.ts";
import { isFinal, returned, type Stop, thrown, unusable, waits } from "../sdk/verdict.ts";
import type {
  ClaimedJob,
  Enqueued,
  JobRequest,
  Json,
  JsonObject,
  NoteKind,
} from "../types/jobs.ts";
import { type Host, type OnEnd, type Report, type Run, type Runner, SUCCEEDED } from "./runner.ts";

const MOST_TENANTS = 1_000;

type Within = <R>(work: () => R) => R;

export class Inline implements Runner {
  readonly #host: Host;
  readonly #tenants = new Map<string, Within>();

  constructor(host: Host) {
    this.#host = host;
  }

  async open(): Promise<void> {}

  async close(): Promise<void> {}

  start(job: ClaimedJob, definition: Runnable, onEnd: OnEnd): Run | Report {
    const run = new InlineRun(this.#host, job, definition, onEnd);
    return run.begin(this.#within(job)) ?? run;
  }

  /** What it enqueues is of its tenant, and of its correlation and trace where it has them. */
  #within(job: ClaimedJob): Within {
    if (job.correlation_id === null && job.traceparent === null) return this.#plain(job.tenant_id);
    const current = { tenantId: job.tenant_id, door: null, origin: job };
    return (work) => CURRENT.run(current, work);
  }

  /** Kept for all jobs of a tenant: to make one costs a tenth of a short job. */
  #plain(tenantId: string): Within {
    const known = this.#tenants.get(tenantId);
    if (known !== undefined) return known;
    if (this.#tenants.size >= MOST_TENANTS) this.#tenants.clear();
    const within = CURRENT.run({ tenantId, door: null }, () => AsyncLocalStorage.snapshot());
    this.#tenants.set(tenantId, within);
    return within;
  }
}

/** One attempt: what the worker can stop, and the channel of its context. */
class InlineRun implements Run {
  readonly job: ClaimedJob;
  readonly #host: Host;
  readonly #definition: Runnable;
  readonly #context: Context;
  #onEnd: OnEnd | null;
  #stopped: Stop | null = null;
  #grace: NodeJS.Timeout | undefined;

  constructor(host: Host, job: ClaimedJob, definition: Runnable, onEnd: OnEnd) {
    this.job = job;
    this.#host = host;
    this.#definition = definition;
    this.#context = new Context(job, this, host.workerId);
    this.#onEnd = onEnd;
  }

  /** A report if it has ended already. */
  begin(within: Within): Report | null {
    try {
      const answer = within(() => promised(this.#definition.invoke(this.#context, this.job)));
      if (!(answer instanceof Promise)) return this.#atOnce(this.#returned(answer));
      answer.then(
        (result) => this.#end(this.#returned(result)),
        (error) => this.#end(this.#thrown(error)),
      );
      return null;
    } catch (error) {
      return this.#atOnce(this.#thrown(error));
    }
  }

  get hasEnded(): boolean {
    return this.#onEnd === null;
  }

  stop(why: Stop): void {
    if (this.#stopped === null) {
      this.#stopped = why;
      this.#grace = setTimeout(
        () => this.#end({ verdict: null }),
        this.#definition.settings.graceS * 1000,
      );
      this.#context.askToStop();
    } else if (isFinal(why) && !isFinal(this.#stopped)) {
      this.#stopped = why;
    }
  }

  extend(): void {
    // What runs in this process sees the worker's own clock.
  }

  note(kind: NoteKind, data: JsonObject): void {
    if (this.#onEnd !== null) this.#host.note(this.job, kind, data);
  }

  async secret(name: string): Promise<string> {
    return this.#host.secret(name);
  }

  async saveStep(name: string, index: number, result: Json): Promise<void> {
    await this.#host.saveStep(this.job, name, index, result);
  }

  async enqueueChildren(
    name: string,
    index: number,
    jobs: readonly JobRequest[],
  ): Promise<readonly Enqueued[]> {
    return await this.#host.enqueueChildren(this.job, name, index, jobs);
  }

  wait(waiting: Waiting): void {
    // Whoever starts it has to know of the run before it ends.
    queueMicrotask(() => this.#end({ verdict: waits(waiting) }));
  }

  /** Nothing that it left behind ends it again. */
  #atOnce(report: Report): Report {
    this.#onEnd = null;
    return report;
  }

  #end(report: Report): void {
    clearTimeout(this.#grace);
    const onEnd = this.#onEnd;
    this.#onEnd = null;
    onEnd?.(this.job, report);
  }

  #returned(result: unknown): Report {
    try {
      const dumped = this.#definition.dump(this.#context, result);
      return dumped === undefined ? SUCCEEDED : { verdict: returned(dumped) };
    } catch (error) {
      return error instanceof Invalid
        ? { verdict: unusable(error, jobScope(this.job)) }
        : this.#thrown(error);
    }
  }

  #thrown(error: unknown): Report {
    if (this.#stopped === "lost") return { verdict: null };
    const { settings } = this.#definition;
    return { verdict: thrown(error, settings, this.#stopped, jobScope(this.job)) };
  }
}

/** Query builders are awaited as promises are, and do nothing before, but are none. */
function promised(answer: unknown): unknown {
  const isThenable =
    typeof answer === "object" &&
    answer !== null &&
    "then" in answer &&
    typeof answer.then === "function";
  return isThenable ? Promise.resolve(answer) : answer;
}
