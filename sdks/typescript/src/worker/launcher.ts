/** Starts claimed jobs in time slices: passes each job to the runner of its definition. */

import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import type { BackgroundLoop } from "../db/background-loop.ts";
import { ConfigError } from "../errors.ts";
import { emit, isEnabled, jobFields } from "../observability/logs.ts";
import { jobScope } from "../redact/index.ts";
import type { Runnable } from "../sdk/definition.ts";
import type { Isolation } from "../sdk/definition-settings.ts";
import { verdictFromError } from "../sdk/verdict.ts";
import type { ClaimedJob } from "../types/jobs.ts";
import { now } from "./clock.ts";
import type { LeaseTable } from "./leases.ts";
import {
  isReport,
  type OnEnd,
  RELEASED,
  type Report,
  type Run,
  type Runner,
} from "./runner-protocol.ts";

// How long jobs are started before the event loop gets to other work.
const TIME_SLICE_S = 0.01;
// After this number of starts, handlers that never await I/O finish before more jobs start, so that
// V8 frees their objects in the young generation.
const GROUP_SIZE = 50;
// The maximum delay of a Node timer, about 25 days.
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * Claimed jobs with the deadline of their leases by the worker's clock. Batches come and go: with
 * one long-lived array, V8 promoted about half of the jobs to the old generation.
 */
export type ClaimBuffer = {
  readonly jobs: readonly ClaimedJob[];
  readonly deadline: number;
  started: number;
}[];

interface ServedDefinition {
  readonly definition: Runnable;
  readonly runner: Runner;
}

/**
 * Definitions and runners by key, then by version. Concatenating both for a lookup would cost more
 * than two lookups.
 */
export type ServedDefinitions = ReadonlyMap<string, ReadonlyMap<number, ServedDefinition>>;

interface StartedRun {
  readonly run: Run;
  readonly deadline: number;
  readonly timeoutS: number;
}

export class Launcher {
  readonly #ready: ClaimBuffer;
  readonly #served: ServedDefinitions;
  readonly #leases: LeaseTable;
  readonly #onEnd: OnEnd;
  #started: StartedRun[] = [];
  #isReleasing = false;

  constructor(ready: ClaimBuffer, served: ServedDefinitions, leases: LeaseTable, onEnd: OnEnd) {
    this.#ready = ready;
    this.#served = served;
    this.#leases = leases;
    this.#onEnd = onEnd;
  }

  /** Release all jobs that have not started. */
  releaseRemaining(): void {
    this.#isReleasing = true;
  }

  /** Whether started jobs are not in the lease table yet. */
  get isBusy(): boolean {
    return this.#started.some(({ run }) => !run.hasEnded);
  }

  async step(loop: BackgroundLoop): Promise<void> {
    if (this.#ready.length === 0) {
      await loop.waitForWake();
      return;
    }
    const sliceEnd = now() + TIME_SLICE_S;
    do {
      this.#startGroup(sliceEnd);
      await Promise.resolve();
      this.#started = this.#started.filter(({ run }) => !run.hasEnded);
    } while (this.#ready.length > 0 && now() < sliceEnd);
    await yieldToEventLoop();
    this.#holdLeases();
  }

  #startGroup(sliceEnd: number): void {
    const [batch] = this.#ready;
    if (batch === undefined) return;
    const { jobs, deadline } = batch;
    for (const job of jobs.slice(batch.started, batch.started + GROUP_SIZE)) {
      batch.started += 1;
      const moment = now();
      const report =
        moment < deadline && !this.#isReleasing ? this.#start(job, deadline) : RELEASED;
      if (report !== null) this.#onEnd(job, report);
      if (moment >= sliceEnd) break;
    }
    if (batch.started === jobs.length) this.#ready.shift();
  }

  /** Start the job. Returns a report if the attempt has already ended. */
  #start(job: ClaimedJob, deadline: number): Report | null {
    const served = this.#served.get(job.definition)?.get(job.version);
    if (served === undefined) return RELEASED;
    if (isEnabled("debug")) emit("job.started", jobFields(job), "debug");
    const { definition, runner } = served;
    try {
      const run = runner.start(job, definition, this.#onEnd);
      if (isReport(run)) return run;
      const timeoutS = job.timeout_s ?? definition.settings.timeoutS;
      this.#started.push({ run, deadline, timeoutS });
      return null;
    } catch (error) {
      return { verdict: verdictFromError(error, definition.settings, null, jobScope(job)) };
    }
  }

  /**
   * Add the runs that have not ended to the lease table. Most short jobs end within their time
   * slice and need no timer.
   */
  #holdLeases(): void {
    for (const { run, deadline, timeoutS } of this.#started) {
      if (run.hasEnded) continue;
      const stop = () => run.stop("timeout");
      const timeoutMs = Math.min(timeoutS * 1000, MAX_TIMEOUT_MS);
      this.#leases.hold(run, deadline, setTimeout(stop, timeoutMs));
    }
    this.#started = [];
  }
}

/**
 * Map the definitions that one of the runners can run. Definitions without a runner are left out.
 */
export function mapServedDefinitions(
  definitions: Iterable<Runnable>,
  runners: ReadonlyMap<Isolation, Runner>,
): ServedDefinitions {
  const served = new Map<string, ReadonlyMap<number, ServedDefinition>>();
  for (const definition of definitions) {
    const runner = runners.get(definition.settings.isolation);
    if (runner === undefined) continue;
    const serving = { definition, runner };
    const versions = definition.servedVersions.map((version) => [version, serving] as const);
    served.set(definition.settings.key, new Map(versions));
  }
  if (served.size === 0)
    throw new ConfigError("The app has no definitions that this worker can run");
  return served;
}

/** Return `key@version` of each definition, in the engine's format. */
export function listServedNames(served: ServedDefinitions): string[] {
  return [...served].flatMap(([key, versions]) =>
    [...versions.keys()].map((version) => `${key}@${version}`),
  );
}
