/**
 * Running handlers in the worker's own loop: `isolation: "inline"`. A handler cannot be killed: its
 * signal is aborted, and when it has not ended by the end of its grace it is abandoned. Its slot is
 * free then, its lease is let run out, and nothing it does is recorded.
 */

import { Context } from "../context.ts";
import { CURRENT } from "../current.ts";
import type { Runnable } from "../definition.ts";
import { Invalid } from "../errors.ts";
import type { ClaimedJob, JsonObject, NoteKind } from "../job.ts";
import { type Host, type OnEnd, type Report, type Run, type Runner, SUCCEEDED } from "../runner.ts";
import { isFinal, returned, type Stop, thrown, unusable } from "../verdict.ts";

export class Inline implements Runner {
  readonly #host: Host;

  constructor(host: Host) {
    this.#host = host;
  }

  async open(): Promise<void> {}

  async close(): Promise<void> {}

  start(job: ClaimedJob, definition: Runnable, onEnd: OnEnd): Run | Report {
    const run = new InlineRun(this.#host, job, definition, onEnd);
    return run.begin() ?? run;
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
  begin(): Report | null {
    try {
      const current = { job: this.job, door: null };
      const answer = CURRENT.run(current, () => this.#definition.invoke(this.#context, this.job));
      if (!(answer instanceof Promise)) return this.#returned(answer);
      answer.then(
        (result) => this.#end(this.#returned(result)),
        (error) => this.#end(this.#thrown(error)),
      );
      return null;
    } catch (error) {
      return this.#thrown(error);
    }
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

  #end(report: Report): void {
    clearTimeout(this.#grace);
    const onEnd = this.#onEnd;
    this.#onEnd = null;
    onEnd?.(this.job, report);
  }

  #returned(result: unknown): Report {
    try {
      const dumped = this.#definition.dump(result);
      return dumped === undefined ? SUCCEEDED : { verdict: returned(dumped) };
    } catch (error) {
      return error instanceof Invalid ? { verdict: unusable(error) } : this.#thrown(error);
    }
  }

  #thrown(error: unknown): Report {
    if (this.#stopped === "lost") return { verdict: null };
    return { verdict: thrown(error, this.#definition.settings, this.#stopped) };
  }
}
