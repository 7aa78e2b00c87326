/** From claimed to running: hands each job to what runs its definition, a little at a time. */

import { setImmediate as turn } from "node:timers/promises";
import type { Runnable } from "../definition.ts";
import { ConfigError } from "../errors.ts";
import type { ClaimedJob } from "../job.ts";
import { isReport, type OnEnd, RELEASED, type Report, type Run, type Runner } from "../runner.ts";
import type { Isolation } from "../settings.ts";
import { emit, fieldsOf, isEnabled } from "../telemetry.ts";
import { thrown } from "../verdict.ts";
import { now } from "./clock.ts";
import type { Leases } from "./leases.ts";
import type { Loop } from "./loop.ts";

// For so long jobs are started in one go; then whatever else is due gets its turn.
const TURN_S = 0.01;
// What a timer can count; longer timeouts are left to the next worker's clock.
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

/** Claimed jobs, each with the end of its lease by our own clock. */
export type Ready = { readonly job: ClaimedJob; readonly deadline: number }[];
export type Served = ReadonlyMap<
  string,
  { readonly definition: Runnable; readonly runner: Runner }
>;

/** What runs the jobs of each `key@version`; without a runner a definition is left out. */
export function serve(
  definitions: Iterable<Runnable>,
  runners: ReadonlyMap<Isolation, Runner>,
): Served {
  const served = new Map<string, { definition: Runnable; runner: Runner }>();
  for (const definition of definitions) {
    const runner = runners.get(definition.settings.isolation);
    if (runner === undefined) continue;
    for (const name of definition.served) served.set(name, { definition, runner });
  }
  if (served.size === 0)
    throw new ConfigError("the app has no definitions that this worker can run");
  return served;
}

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
  readonly #whenOver: OnEnd;
  readonly #begun = new Map<ClaimedJob, Begun>();
  #isOver = false;

  constructor(ready: Ready, served: Served, leases: Leases, onEnd: OnEnd) {
    this.#ready = ready;
    this.#served = served;
    this.#leases = leases;
    this.#onEnd = onEnd;
    this.#whenOver = (job, report) => {
      this.#begun.delete(job);
      onEnd(job, report);
    };
  }

  /** From now on jobs are handed back instead. */
  end(): void {
    this.#isOver = true;
  }

  /** Whether some were started whose leases are not held yet. */
  get isBusy(): boolean {
    return this.#begun.size > 0;
  }

  async step(loop: Loop): Promise<void> {
    if (this.#ready.length === 0) {
      await loop.rest();
      return;
    }
    const turnEnds = now() + TURN_S;
    let started = 0;
    for (const { job, deadline } of this.#ready) {
      const moment = now();
      if (started > 0 && moment >= turnEnds) break;
      started += 1;
      const report = moment < deadline && !this.#isOver ? this.#start(job, deadline) : RELEASED;
      if (report !== null) this.#onEnd(job, report);
    }
    this.#ready.splice(0, started);
    await turn();
    this.#hold();
  }

  /** A report if it has ended already. */
  #start(job: ClaimedJob, deadline: number): Report | null {
    const served = this.#served.get(`${job.definition}@${job.version}`);
    if (served === undefined) return RELEASED;
    if (isEnabled("debug")) emit("job.started", fieldsOf(job), "debug");
    const { definition, runner } = served;
    try {
      const run = runner.start(job, definition, this.#whenOver);
      if (isReport(run)) return run;
      this.#begun.set(job, {
        run,
        deadline,
        timeoutS: job.timeout_s ?? definition.settings.timeoutS,
      });
      return null;
    } catch (error) {
      return { verdict: thrown(error, definition.settings, null) };
    }
  }

  /** Most of many short jobs are over within their turn, and need no timers of their own. */
  #hold(): void {
    for (const { run, deadline, timeoutS } of this.#begun.values()) {
      const stop = () => run.stop("timeout");
      const timeoutMs = Math.min(timeoutS * 1000, LONGEST_TIMEOUT_MS);
      this.#leases.hold(run, deadline, setTimeout(stop, timeoutMs));
    }
    this.#begun.clear();
  }
}
