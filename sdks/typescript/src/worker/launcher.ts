/** From claimed to running: hands each job to what runs its definition, a little at a time. */

import { setImmediate as turn } from "node:timers/promises";
import type { Loop } from "../db/loop.ts";
import { emit, fieldsOf, isEnabled } from "../observability/logs.ts";
import { jobScope } from "../redact/index.ts";
import { thrown } from "../sdk/verdict.ts";
import type { ClaimedJob } from "../types/jobs.ts";
import { now } from "./clock.ts";
import type { Leases } from "./leases.ts";
import { isReport, type OnEnd, RELEASED, type Report, type Run } from "./runner.ts";
import type { Served } from "./served.ts";

// For so long jobs are started in one go; then whatever else is due gets its turn.
const TURN_S = 0.01;
// After so many, those that never wait end before more are started: what they needed is free again
// while it is young.
const FLOCK = 50;
// What a timer can count; longer timeouts are left to the next worker's clock.
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * What claims have brought, with the end of its leases by our own clock. In batches that come and go:
 * one array that lasts, and holds on to what passed through it, made V8 keep half of it for long.
 */
export type Ready = {
  readonly jobs: readonly ClaimedJob[];
  readonly deadline: number;
  started: number;
}[];

interface Begun {
  readonly run: Run;
  readonly deadline: number;
  readonly timeoutS: number;
}

export class Starts {
  readonly #ready: Ready;
  readonly #served: Served;
  readonly #leases: Leases;
  readonly #onEnd: OnEnd;
  #begun: Begun[] = [];
  #isOver = false;

  constructor(ready: Ready, served: Served, leases: Leases, onEnd: OnEnd) {
    this.#ready = ready;
    this.#served = served;
    this.#leases = leases;
    this.#onEnd = onEnd;
  }

  /** From now on jobs are handed back instead. */
  end(): void {
    this.#isOver = true;
  }

  /** Whether some were started whose leases are not held yet. */
  get isBusy(): boolean {
    return this.#begun.some(({ run }) => !run.hasEnded);
  }

  async step(loop: Loop): Promise<void> {
    if (this.#ready.length === 0) {
      await loop.rest();
      return;
    }
    const turnEnds = now() + TURN_S;
    do {
      this.#startSome(turnEnds);
      await Promise.resolve();
      this.#begun = this.#begun.filter(({ run }) => !run.hasEnded);
    } while (this.#ready.length > 0 && now() < turnEnds);
    await turn();
    this.#hold();
  }

  #startSome(turnEnds: number): void {
    const [batch] = this.#ready;
    if (batch === undefined) return;
    const { jobs, deadline } = batch;
    for (const job of jobs.slice(batch.started, batch.started + FLOCK)) {
      batch.started += 1;
      const moment = now();
      const report = moment < deadline && !this.#isOver ? this.#start(job, deadline) : RELEASED;
      if (report !== null) this.#onEnd(job, report);
      if (moment >= turnEnds) break;
    }
    if (batch.started === jobs.length) this.#ready.shift();
  }

  /** A report if it has ended already. */
  #start(job: ClaimedJob, deadline: number): Report | null {
    const served = this.#served.get(job.definition)?.get(job.version);
    if (served === undefined) return RELEASED;
    if (isEnabled("debug")) emit("job.started", fieldsOf(job), "debug");
    const { definition, runner } = served;
    try {
      const run = runner.start(job, definition, this.#onEnd);
      if (isReport(run)) return run;
      const timeoutS = job.timeout_s ?? definition.settings.timeoutS;
      this.#begun.push({ run, deadline, timeoutS });
      return null;
    } catch (error) {
      return { verdict: thrown(error, definition.settings, null, jobScope(job)) };
    }
  }

  /** Most of many short jobs are over within their turn, and need no timers of their own. */
  #hold(): void {
    for (const { run, deadline, timeoutS } of this.#begun) {
      if (run.hasEnded) continue;
      const stop = () => run.stop("timeout");
      const timeoutMs = Math.min(timeoutS * 1000, LONGEST_TIMEOUT_MS);
      this.#leases.hold(run, deadline, setTimeout(stop, timeoutMs));
    }
    this.#begun = [];
  }
}
