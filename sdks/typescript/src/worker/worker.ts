/**
 * The worker: one process that claims jobs, has them run, and settles how they ended.
 *
 *     claims ──ready──► starts ──► runners ──ended──► outcomes
 *        ▲                            │
 *        └───────── free slots ◄──────┘
 *
 * These are loops that all go on at once: while a claim is on its way the jobs of the last one run,
 * and what ends gathers for the next settle. Upkeep extends the leases; the watch stops what could
 * not be extended in time. How a job is run, runners know.
 */

import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import {
  type Call,
  enqueueChildren,
  enqueueJobs,
  ensurePartitions,
  registerWorker,
  unregisterWorker,
} from "../calls/index.ts";
import type { Database } from "../db/database.ts";
import { Loop } from "../db/loop.ts";
import { Line, Outage } from "../db/outage.ts";
import { emit, type Fields, fieldsOf, isEnabled } from "../observability/logs.ts";
import { isSecretName, registerOperatorSecret, registerSecret, UNSAFE } from "../redact/index.ts";
import type { JobForge } from "../sdk/app.ts";
import type { Runnable } from "../sdk/definition.ts";
import { flowing } from "../sdk/job-scope.ts";
import type { Isolation } from "../sdk/settings.ts";
import { Secrets } from "../security/secrets.ts";
import type {
  ClaimedJob,
  Enqueued,
  JobRequest,
  Json,
  JsonObject,
  NoteKind,
  WorkerCommand,
} from "../types/jobs.ts";
import { Claims } from "./claims.ts";
import { Upkeep } from "./heartbeat.ts";
import { Inline } from "./inline.ts";
import { Isolated, type IsolationOptions } from "./isolation/runner.ts";
import { type Ready, Starts } from "./launcher.ts";
import { Leases } from "./leases.ts";
import { Wakeups } from "./listener.ts";
import { Notes } from "./notes.ts";
import { checkOptions, queuesOf, type WorkerOptions } from "./options.ts";
import { type Host, RELEASED, type Report, type Runner } from "./runner.ts";
import { namesOf, serve } from "./served.ts";
import { Outcomes } from "./settler.ts";
import { Slots } from "./slots.ts";
import { Steps } from "./step-writer.ts";

const WATCH_S = 1;
// What the end of a worker may take beyond its drain: for killed jobs to be gone, for a claim that
// is on its way, and for the last outcomes.
const KILL_S = 5;
const FLUSH_S = 10;

/** Runs the jobs of an app until it is told to stop; the Host of its runners. */
export class Worker implements Host {
  readonly workerId: string = randomUUID();
  readonly #app: JobForge;
  readonly #database: Database;
  readonly #secrets: Secrets;
  readonly #jobEnvironment: readonly string[];
  readonly #drainS: number;
  readonly #registration: Call<void>;
  readonly #runners: ReadonlyMap<Isolation, Runner>;
  readonly #lines: readonly Line[];
  readonly #upkeepLine: Line;
  readonly #slots: Slots;
  readonly #leases: Leases;
  readonly #notes = new Notes();
  readonly #outcomes: Outcomes;
  readonly #steps: Steps;
  readonly #ready: Ready = [];
  readonly #starts: Starts;
  readonly #claims: Claims;
  readonly #wakeups: Wakeups;
  readonly #starting: Loop;
  readonly #claiming: Loop;
  readonly #settling: Loop;
  readonly #storing: Loop;
  readonly #keeping: Loop;
  readonly #watching: Loop;
  readonly #listening: Loop;
  #isRunning = false;
  #isStopping = false;
  #isKilling = false;
  #onMoved: (() => void) | null = null; // something has ended, or was settled

  constructor(app: JobForge, options: WorkerOptions = {}) {
    const leaseS = options.leaseS ?? 30;
    const heartbeatS = options.heartbeatS ?? 10;
    const definitions = [...app.definitions.values()];
    const queues = options.queues ?? queuesOf(definitions);
    checkOptions(queues, leaseS, heartbeatS);
    this.#app = app;
    this.#database = app.database();
    this.#secrets = new Secrets(options.secretsDir);
    this.#jobEnvironment = options.jobEnvironment ?? [];
    this.#drainS = options.drainS ?? 30;
    this.#runners = runnersFor(this, definitions, options);
    const served = serve(definitions, this.#runners);
    const names = namesOf(served);
    this.#slots = new Slots(queues);
    this.#registration = registerWorker({
      workerId: this.workerId,
      queues: Object.keys(queues),
      slots: this.#slots.total,
      definitions: names,
      host: hostname(),
      pid: process.pid,
      build: options.build ?? null,
    });

    const outage = new Outage();
    const claimLine = new Line(this.#database.link(false), outage);
    const settleLine = new Line(this.#database.link(), outage);
    this.#upkeepLine = new Line(this.#database.link(), outage);
    const stepLine = new Line(this.#database.link(), outage);
    this.#lines = [claimLine, settleLine, stepLine, this.#upkeepLine];

    this.#leases = new Leases(leaseS);
    this.#outcomes = new Outcomes(this.workerId, settleLine, {
      leases: this.#leases,
      notes: this.#notes,
      onSettled: () => this.#moved(),
    });
    this.#steps = new Steps(this.workerId, stepLine, this.#leases);
    this.#starts = new Starts(this.#ready, served, this.#leases, (job, report) =>
      this.#ended(job, report),
    );
    this.#starting = new Loop("starts", (loop) => this.#starts.step(loop));
    this.#claims = new Claims(
      {
        workerId: this.workerId,
        registration: this.#registration,
        leaseS,
        pollS: options.pollS ?? 1,
      },
      claimLine,
      {
        slots: this.#slots,
        outcomes: this.#outcomes,
        ready: this.#ready,
        onReady: () => this.#starting.ring(),
      },
    );
    const upkeep = new Upkeep(
      {
        workerId: this.workerId,
        leaseS,
        heartbeatS,
        registration: this.#registration,
        obey: (command) => this.#obey(command),
      },
      this.#upkeepLine,
      this.#leases,
    );
    this.#claiming = new Loop("claims", (loop) => this.#claims.step(loop));
    this.#settling = new Loop("outcomes", (loop) => this.#outcomes.step(loop));
    this.#storing = new Loop("steps", (loop) => this.#steps.step(loop));
    this.#keeping = new Loop("upkeep", (loop) => upkeep.step(loop));
    this.#watching = new Loop("watch", (loop) => this.#watch(loop));
    this.#wakeups = new Wakeups(this.#database, this.workerId, Object.keys(queues), {
      onJob: (queue) => this.#expect(queue),
      onNews: () => this.#keeping.ring(),
    });
    this.#listening = new Loop("wakeups", (loop) => this.#wakeups.step(loop));
  }

  /** Until it is stopped, from here or from afar, and everything is settled or handed back. */
  async run(): Promise<void> {
    if (this.#isStopping) return;
    try {
      await this.#open();
      const claiming = this.#claiming.run();
      const listening = this.#database.canListen ? this.#listening.run() : Promise.resolve();
      const loops = [
        ...[this.#starting, this.#settling, this.#storing],
        ...[this.#keeping, this.#watching],
      ];
      const tasks = loops.map((loop) => loop.run());
      await this.#until(() => this.#isStopping);
      await this.#endClaims(claiming);
      await this.#endRuns();
      await this.#until(() => this.#outcomes.size === 0 && this.#notes.size === 0, FLUSH_S);
      this.#outcomes.tellUnsettled();
      this.#listening.stop();
      this.#wakeups.close();
      for (const loop of loops) loop.stop();
      await within(Promise.all([...tasks, listening]), KILL_S);
    } finally {
      await this.#close();
    }
  }

  /** Claims no more, and ends when the running jobs have. The second call hands them back. */
  stop(): void {
    if (this.#isStopping) this.#isKilling = true;
    this.#isStopping = true;
    this.#moved();
  }

  get isRunning(): boolean {
    return this.#isRunning;
  }

  // For the runners.

  note(job: ClaimedJob, kind: NoteKind, data: JsonObject): void {
    this.#notes.add(job, kind, data);
    this.#settling.ring();
    if (isEnabled("debug")) emit(`job.${kind}`, { ...fieldsOf(job), data }, "debug");
  }

  async enqueue(job: ClaimedJob, jobs: readonly JobRequest[]): Promise<readonly Enqueued[]> {
    const requests = flowing(job, jobs);
    return await this.#database.runFor(job.tenant_id, (id) => enqueueJobs(requests, id));
  }

  async saveStep(job: ClaimedJob, name: string, index: number, result: Json): Promise<void> {
    const stored = this.#steps.add(job, name, index, result);
    this.#storing.ring();
    await stored;
  }

  async enqueueChildren(
    job: ClaimedJob,
    name: string,
    index: number,
    jobs: readonly JobRequest[],
  ): Promise<readonly Enqueued[]> {
    const step = { name, index, jobs: flowing(job, jobs) };
    return await this.#database.runFor(job.tenant_id, (id) =>
      enqueueChildren(this.workerId, job, step, id),
    );
  }

  secret(name: string): string {
    return this.#secrets.lookup(name);
  }

  async #open(): Promise<void> {
    this.#registerSecrets();
    for (const call of [...this.#app.registrations(), ensurePartitions()]) {
      await this.#upkeepLine.run(call);
    }
    for (const runner of this.#runners.values()) await runner.open();
    await this.#upkeepLine.run(this.#registration);
    this.#isRunning = true;
    emit("worker.started", { slots: this.#slots.total });
  }

  /** Hides the secrets of this process in its log lines, and those of jobs in their output. */
  #registerSecrets(): void {
    for (const password of this.#database.passwords) {
      if (!registerOperatorSecret(password)) warnOf({ setting: "database_url" });
    }
    for (const name of this.#jobEnvironment.filter(isSecretName)) {
      const value = process.env[name];
      if (value && !registerSecret(value)) warnOf({ variable: name });
    }
  }

  async #close(): Promise<void> {
    for (const runner of this.#runners.values()) await runner.close();
    if (this.#isRunning) await this.#signOff();
    await within(Promise.all(this.#lines.map((line) => line.close())), KILL_S);
  }

  async #signOff(): Promise<void> {
    this.#isRunning = false;
    // If it cannot, the worker is seen as stale.
    const leaving = this.#upkeepLine.run(unregisterWorker(this.workerId)).catch(() => undefined);
    await within(leaving, KILL_S);
    emit("worker.stopped", {
      claimed: this.#claims.claimed,
      settled: this.#outcomes.settled,
      unsettled: this.#outcomes.size,
    });
  }

  #expect(queue: string): void {
    this.#slots.expect(queue);
    this.#claiming.ring();
  }

  #ended(job: ClaimedJob, report: Report): void {
    const durationS = this.#leases.drop(job);
    if (this.#slots.give(job.queue)) this.#claiming.ring();
    if (report.verdict === null) {
      emit("job.lost", fieldsOf(job), "warning");
    } else {
      this.#outcomes.add(job, report, durationS);
      this.#settling.ring();
    }
    this.#moved();
  }

  async #watch(loop: Loop): Promise<void> {
    this.#leases.stopOverdue();
    await loop.rest(Math.min(WATCH_S, this.#leases.nextDeadlineS()));
  }

  #obey(command: WorkerCommand): void {
    if (command === "drain" && !this.#isStopping) this.stop();
    if (command === "stop") {
      this.stop();
      this.stop();
    }
  }

  async #endClaims(claiming: Promise<void>): Promise<void> {
    this.#claiming.stop();
    this.#starts.end();
    // Its answer may be on its way, and those jobs are to be handed back.
    await within(
      claiming.then(() => this.#claims.end()),
      KILL_S,
    );
  }

  async #endRuns(): Promise<void> {
    await this.#until(() => this.#isIdle || this.#isKilling, this.#drainS);
    this.#leases.stopAll("shutdown");
    await this.#until(() => this.#isIdle, KILL_S);
    for (const run of this.#leases.runs) this.#ended(run.job, RELEASED);
  }

  get #isIdle(): boolean {
    return this.#leases.size === 0 && this.#ready.length === 0 && !this.#starts.isBusy;
  }

  #moved(): void {
    this.#onMoved?.();
  }

  /** Until it holds, or the time is up; it is looked at whenever something has moved. */
  async #until(condition: () => boolean, seconds = Number.POSITIVE_INFINITY): Promise<void> {
    if (condition()) return;
    const holds = new Promise<void>((resolve) => {
      this.#onMoved = () => {
        if (condition()) resolve();
      };
    });
    await within(holds, seconds);
    this.#onMoved = null;
  }
}

function warnOf(secret: Fields): void {
  emit("secret.not_hidden", { ...secret, reason: UNSAFE }, "warning");
}

/** Until it has ended, or the time is up. */
async function within(ending: Promise<unknown>, seconds: number): Promise<void> {
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

function runnersFor(
  host: Host,
  definitions: readonly Runnable[],
  options: IsolationOptions,
): ReadonlyMap<Isolation, Runner> {
  const runners = new Map<Isolation, Runner>([["inline", new Inline(host)]]);
  const isolated = definitions.filter(({ settings }) => settings.isolation === "process");
  if (isolated.length > 0) {
    runners.set(
      "process",
      new Isolated(
        host,
        isolated.map(({ settings }) => settings),
        options,
      ),
    );
  }
  return runners;
}
