/** From claimed to running: hands each job to what runs its definition, a little at a time. */

import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import type { BackgroundLoop } from "../db/loop.ts";
import { ConfigError } from "../errors.ts";
import { emit, isEnabled, jobFields } from "../observability/logs.ts";
import { jobScope } from "../redact/index.ts";
import type { Runnable } from "../sdk/definition.ts";
import type { Isolation } from "../sdk/settings.ts";
import { verdictFromError } from "../sdk/verdict.ts";
import type { ClaimedJob } from "../types/jobs.ts";
import { now } from "./clock.ts";
import type { LeaseTable } from "./leases.ts";
import type { Runner } from "./runner.ts";
import { isReport, type OnEnd, RELEASED, type Report, type Run } from "./runner.ts";

// For so long jobs are started in one go; then whatever else is due gets its turn.
const TIME_SLICE_S = 0.01;
// After so many, those that never wait end before more are started: what they needed is free again
// while it is young.
const GROUP_SIZE = 50;
// What a timer can count; longer timeouts are left to the next worker's clock.
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/**
 * What claims have brought, with the end of its leases by our own clock. In batches that come and go:
 * one array that lasts, and holds on to what passed through it, made V8 keep half of it for long.
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

/** By key, then by version: to put the two together for each job would cost more than to look. */
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

  constructor(
    ready: ClaimBuffer,
    servedVersions: ServedDefinitions,
    leases: LeaseTable,
    onEnd: OnEnd,
  ) {
    this.#ready = ready;
    this.#served = servedVersions;
    this.#leases = leases;
    this.#onEnd = onEnd;
  }

  /** From now on jobs are handed back instead. */
  releaseRemaining(): void {
    this.#isReleasing = true;
  }

  /** Whether some were started whose leases are not held yet. */
  get isBusy(): boolean {
    return this.#started.some(({ run }) => !run.hasEnded);
  }

  async step(loop: BackgroundLoop): Promise<void> {
    if (this.#ready.length === 0) {
      await loop.rest();
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

  /** A report if it has ended already. */
  #start(job: ClaimedJob, deadline: number): Report | null {
    const servedVersions = this.#served.get(job.definition)?.get(job.version);
    if (servedVersions === undefined) return RELEASED;
    if (isEnabled("debug")) emit("job.started", jobFields(job), "debug");
    const { definition, runner } = servedVersions;
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

  /** Most of many short jobs are over within their turn, and need no timers of their own. */
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

/** Without a runner a definition is left out. */
export function mapServedDefinitions(
  definitions: Iterable<Runnable>,
  runners: ReadonlyMap<Isolation, Runner>,
): ServedDefinitions {
  const servedVersions = new Map<string, ReadonlyMap<number, ServedDefinition>>();
  for (const definition of definitions) {
    const runner = runners.get(definition.settings.isolation);
    if (runner === undefined) continue;
    const versions = definition.servedVersions.map((name) =>
      Number(name.slice(name.lastIndexOf("@") + 1)),
    );
    const serving = { definition, runner };
    servedVersions.set(
      definition.settings.key,
      new Map(versions.map((version) => [version, serving] as const)),
    );
  }
  if (servedVersions.size === 0)
    throw new ConfigError("the app has no definitions that this worker can run");
  return servedVersions;
}

/** `key@version` of each, as the engine names them. */
export function listServedNames(servedVersions: ServedDefinitions): string[] {
  return [...servedVersions].flatMap(([key, versions]) =>
    [...versions.keys()].map((version) => `${key}@${version}`),
  );
}
