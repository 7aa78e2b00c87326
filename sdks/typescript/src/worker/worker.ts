/**
 * The worker: one process that claims jobs, runs them, and settles their outcomes.
 *
 *     Claimer ──ClaimBuffer──► Launcher ──► runners ──► Settler
 *        ▲                                     │
 *        └───────────── free slots ◄───────────┘
 *
 * The loops run concurrently: while a claim is in flight, jobs of the previous claim run, and
 * finished jobs collect for the next settle batch. The heartbeat loop extends the leases; the lease
 * watch loop stops jobs whose lease was not extended in time. Running a job is left to the runners
 * (runner-protocol.ts).
 */

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { type Call, ensurePartitions, registerWorker, unregisterWorker } from "../calls/index.ts";
import { BackgroundLoop } from "../db/background-loop.ts";
import type { Database } from "../db/database.ts";
import { MonitoredLink, Outage } from "../db/outage.ts";
import { emit, type Fields, jobFields } from "../observability/logs.ts";
import { selectVariables } from "../process/environment.ts";
import { isSecretName, registerOperatorSecret, registerSecret, UNSAFE } from "../redact/index.ts";
import type { JobForge } from "../sdk/app.ts";
import type { Runnable } from "../sdk/definition.ts";
import type { Isolation } from "../sdk/definition-settings.ts";
import { Secrets } from "../security/secret-lookup.ts";
import type { ClaimedJob, WorkerCommand } from "../types/jobs.ts";
import { Claimer } from "./claimer.ts";
import { HeartbeatLoop } from "./heartbeat.ts";
import { InlineRunner } from "./inline.ts";
import { type IsolationOptions, ProcessRunner } from "./isolation/runner.ts";
import { JobServices } from "./job-services.ts";
import { type ClaimBuffer, Launcher, listServedNames, mapServedDefinitions } from "./launcher.ts";
import { LeaseTable } from "./leases.ts";
import { JobListener } from "./listener.ts";
import { NoteBuffer } from "./notes.ts";
import { checkOptions, defaultQueues, type WorkerOptions } from "./options.ts";
import { RELEASED, type Report, type Runner } from "./runner-protocol.ts";
import { Settler } from "./settler.ts";
import { Slots } from "./slots.ts";
import { StepWriter } from "./step-writer.ts";

const WATCH_S = 1;
// Shutdown timeouts after the drain: KILL_S for killed jobs to exit and for a claim in flight,
// FLUSH_S to settle the last outcomes.
const KILL_S = 5;
const FLUSH_S = 10;

/** A worker that runs the jobs of an app until it is stopped. */
export class Worker {
  readonly workerId: string = randomUUID();
  readonly #app: JobForge;
  readonly #database: Database;
  readonly #jobEnvironment: readonly string[];
  readonly #drainS: number;
  readonly #registration: Call<void>;
  readonly #runners: ReadonlyMap<Isolation, Runner>;
  readonly #links: readonly MonitoredLink[];
  readonly #heartbeatLink: MonitoredLink;
  readonly #slots: Slots;
  readonly #leases: LeaseTable;
  readonly #notes = new NoteBuffer();
  readonly #settler: Settler;
  readonly #claimBuffer: ClaimBuffer = [];
  readonly #launcher: Launcher;
  readonly #claimer: Claimer;
  readonly #jobListener: JobListener;
  readonly #launchLoop: BackgroundLoop;
  readonly #claimLoop: BackgroundLoop;
  readonly #settleLoop: BackgroundLoop;
  readonly #stepLoop: BackgroundLoop;
  readonly #heartbeatLoop: BackgroundLoop;
  readonly #leaseWatchLoop: BackgroundLoop;
  readonly #listenLoop: BackgroundLoop;
  #isRunning = false;
  #isStopping = false;
  #isKilling = false;
  // Called when a job ends or outcomes are settled.
  #onStateChange: (() => void) | null = null;

  constructor(app: JobForge, options: WorkerOptions = {}) {
    const leaseS = options.leaseS ?? 30;
    const heartbeatS = options.heartbeatS ?? 10;
    const definitions = [...app.definitions.values()];
    const queues = options.queues ?? defaultQueues(definitions);
    checkOptions(queues, leaseS, heartbeatS);
    this.#app = app;
    this.#database = app.database();
    this.#jobEnvironment = options.jobEnvironment ?? [];
    this.#drainS = options.drainS ?? 30;

    const outage = new Outage();
    const openLink = (durable: boolean) =>
      new MonitoredLink(this.#database.createLink(durable), outage);
    const claimLink = openLink(false);
    const settleLink = openLink(true);
    const stepLink = openLink(true);
    this.#heartbeatLink = openLink(true);
    this.#links = [claimLink, settleLink, stepLink, this.#heartbeatLink];

    this.#leases = new LeaseTable(leaseS);
    const steps = new StepWriter(this.workerId, stepLink, this.#leases);
    const services = new JobServices({
      workerId: this.workerId,
      database: this.#database,
      notes: this.#notes,
      steps,
      secrets: new Secrets(options.secretsDir),
      onNote: () => this.#settleLoop.wake(),
      onStep: () => this.#stepLoop.wake(),
    });
    this.#runners = createRunners(services, definitions, options);
    const served = mapServedDefinitions(definitions, this.#runners);
    this.#slots = new Slots(queues);
    this.#registration = registerWorker({
      worker_id: this.workerId,
      queues: Object.keys(queues),
      slots: this.#slots.total,
      definitions: listServedNames(served),
      host: hostname(),
      pid: process.pid,
      build: options.build ?? null,
      lease_s: leaseS,
    });
    this.#settler = new Settler(this.workerId, settleLink, {
      leases: this.#leases,
      notes: this.#notes,
      onSettled: () => this.#notifyWaiter(),
    });
    this.#launcher = new Launcher(this.#claimBuffer, served, this.#leases, (job, report) =>
      this.#onRunEnd(job, report),
    );
    this.#launchLoop = new BackgroundLoop("starts", (loop) => this.#launcher.step(loop));
    this.#claimer = new Claimer(
      {
        workerId: this.workerId,
        registration: this.#registration,
        leaseS,
        pollS: options.pollS ?? 1,
      },
      claimLink,
      {
        slots: this.#slots,
        settler: this.#settler,
        claimBuffer: this.#claimBuffer,
        onClaimed: () => this.#launchLoop.wake(),
      },
    );
    const heartbeat = new HeartbeatLoop(
      {
        workerId: this.workerId,
        leaseS,
        heartbeatS,
        registration: this.#registration,
        onCommand: (command) => this.#handleCommand(command),
      },
      this.#heartbeatLink,
      this.#leases,
    );
    this.#claimLoop = new BackgroundLoop("claims", (loop) => this.#claimer.step(loop));
    this.#settleLoop = new BackgroundLoop("outcomes", (loop) => this.#settler.step(loop));
    this.#stepLoop = new BackgroundLoop("steps", (loop) => steps.step(loop));
    this.#heartbeatLoop = new BackgroundLoop("heartbeat", (loop) => heartbeat.step(loop));
    this.#leaseWatchLoop = new BackgroundLoop("watch", (loop) => this.#watchLeases(loop));
    this.#jobListener = new JobListener(this.#database, this.workerId, Object.keys(queues), {
      onJob: (queue) => this.#onJobNotification(queue),
      onHeartbeatRequest: () => this.#heartbeatLoop.wake(),
    });
    this.#listenLoop = new BackgroundLoop("wakeups", (loop) => this.#jobListener.step(loop));
  }

  /**
   * Run until the worker is stopped, locally or by a command of an operator, and all jobs are
   * settled or released.
   */
  async run(): Promise<void> {
    if (this.#isStopping) return;
    try {
      await this.#open();
      const claiming = this.#claimLoop.run();
      const listening = this.#database.canListen ? this.#listenLoop.run() : Promise.resolve();
      const loops = [
        ...[this.#launchLoop, this.#settleLoop, this.#stepLoop],
        ...[this.#heartbeatLoop, this.#leaseWatchLoop],
      ];
      const tasks = loops.map((loop) => loop.run());
      await this.#waitUntil(() => this.#isStopping);
      await this.#stopClaiming(claiming);
      await this.#drainRuns();
      await this.#waitUntil(() => this.#settler.size === 0 && this.#notes.size === 0, FLUSH_S);
      this.#settler.logUnsettled();
      this.#listenLoop.stop();
      this.#jobListener.close();
      for (const loop of loops) loop.stop();
      await waitAtMost(Promise.all([...tasks, listening]), KILL_S);
    } finally {
      await this.#close();
    }
  }

  /** Stop claiming and drain the running jobs. A second call releases them. */
  stop(): void {
    if (this.#isStopping) this.#isKilling = true;
    this.#isStopping = true;
    this.#notifyWaiter();
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  async #open(): Promise<void> {
    this.#registerSecrets();
    for (const call of [...this.#app.buildRegistrations(), ensurePartitions()]) {
      await this.#heartbeatLink.run(call);
    }
    for (const runner of this.#runners.values()) await runner.open();
    await this.#heartbeatLink.run(this.#registration);
    this.#isRunning = true;
    emit("worker.started", { slots: this.#slots.total });
  }

  /** Redact the secrets of this process in its logs, and those of jobs in their output. */
  #registerSecrets(): void {
    for (const password of this.#database.passwords) {
      if (!registerOperatorSecret(password)) warnNotHidden({ setting: "database_url" });
    }
    if (this.#jobEnvironment.includes("*")) {
      const reason = "job_environment is *: jobs receive all variables of the worker but its own";
      emit("environment.not_restricted", { reason }, "warning");
    }
    for (const name of selectVariables(this.#jobEnvironment, Object.keys(process.env))) {
      if (!isSecretName(name)) continue;
      const value = process.env[name];
      if (value && !registerSecret(value)) warnNotHidden({ readVariable: name });
    }
  }

  async #close(): Promise<void> {
    for (const runner of this.#runners.values()) await runner.close();
    if (this.#isRunning) await this.#unregister();
    await waitAtMost(Promise.all(this.#links.map((link) => link.close())), KILL_S);
  }

  async #unregister(): Promise<void> {
    this.#isRunning = false;
    // If this call fails, the worker becomes stale in the engine.
    const leaving = this.#heartbeatLink.run(unregisterWorker(this.workerId)).catch(() => undefined);
    await waitAtMost(leaving, KILL_S);
    emit("worker.stopped", {
      claimed: this.#claimer.claimed,
      settled: this.#settler.settled,
      unsettled: this.#settler.size,
    });
  }

  #onJobNotification(queue: string): void {
    this.#slots.markHasJobs(queue);
    this.#claimLoop.wake();
  }

  #onRunEnd(job: ClaimedJob, report: Report): void {
    const durationS = this.#leases.drop(job);
    if (this.#slots.release(job.queue)) this.#claimLoop.wake();
    if (report.verdict === null) {
      emit("job.lost", jobFields(job), "warning");
    } else {
      this.#settler.add(job, report, durationS);
      this.#settleLoop.wake();
    }
    this.#notifyWaiter();
  }

  async #watchLeases(loop: BackgroundLoop): Promise<void> {
    this.#leases.stopOverdue();
    await loop.waitForWake(Math.min(WATCH_S, this.#leases.nextDeadlineS()));
  }

  #handleCommand(command: WorkerCommand): void {
    if (command === "drain" && !this.#isStopping) this.stop();
    if (command === "stop") {
      this.stop();
      this.stop();
    }
  }

  async #stopClaiming(claiming: Promise<void>): Promise<void> {
    this.#claimLoop.stop();
    this.#launcher.releaseRemaining();
    // A claim in flight may still return jobs, which must be released.
    await waitAtMost(
      claiming.then(() => this.#claimer.end()),
      KILL_S,
    );
  }

  async #drainRuns(): Promise<void> {
    await this.#waitUntil(() => this.#isIdle || this.#isKilling, this.#drainS);
    this.#leases.stopAll("shutdown");
    await this.#waitUntil(() => this.#isIdle, KILL_S);
    for (const run of this.#leases.runs) this.#onRunEnd(run.job, RELEASED);
  }

  get #isIdle(): boolean {
    return this.#leases.size === 0 && this.#claimBuffer.length === 0 && !this.#launcher.isBusy;
  }

  #notifyWaiter(): void {
    this.#onStateChange?.();
  }

  /**
   * Wait until the condition is true or the time is up. The condition is checked after each change
   * of state.
   */
  async #waitUntil(condition: () => boolean, seconds = Number.POSITIVE_INFINITY): Promise<void> {
    if (condition()) return;
    const holds = new Promise<void>((resolve) => {
      this.#onStateChange = () => {
        if (condition()) resolve();
      };
    });
    await waitAtMost(holds, seconds);
    this.#onStateChange = null;
  }
}

function warnNotHidden(secret: Fields): void {
  emit("secret.not_hidden", { ...secret, reason: UNSAFE }, "warning");
}

/** Wait for the promise, at most this many seconds. */
async function waitAtMost(ending: Promise<unknown>, seconds: number): Promise<void> {
  if (seconds === Number.POSITIVE_INFINITY) {
    await ending;
    return;
  }
  let timer: NodeJS.Timeout | undefined;
  const timeUp = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, seconds * 1000);
  });
  await Promise.race([ending, timeUp]);
  clearTimeout(timer);
}

function createRunners(
  services: JobServices,
  definitions: readonly Runnable[],
  options: IsolationOptions,
): ReadonlyMap<Isolation, Runner> {
  const runners = new Map<Isolation, Runner>([["inline", new InlineRunner(services)]]);
  const isolated = definitions.filter(({ settings }) => settings.isolation === "process");
  if (isolated.length > 0) {
    runners.set(
      "process",
      new ProcessRunner(
        services,
        isolated.map(({ settings }) => settings),
        options,
      ),
    );
  }
  return runners;
}
