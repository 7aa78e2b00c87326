/**
 * Settles the outcomes of runs in batches (group commit): outcomes collect while the previous batch
 * is in flight. A job's notes are sent before its outcome. An outcome stays here until the database
 * has confirmed it; after a lost connection it is sent again, and the engine recognizes duplicates.
 * The outcome of a job that another transaction has locked is `busy`: it is sent again after a
 * pause, in a separate batch, so that other outcomes do not wait for it. The worker extends a job's
 * lease until its outcome is settled.
 */

import { completeJobs, noteJobs, succeedJobs } from "../calls/index.ts";
import type { BackgroundLoop } from "../db/background-loop.ts";
import type { MonitoredLink } from "../db/outage.ts";
import { Contended, Denied, NotCommitted, Unavailable } from "../errors.ts";
import { emit, isEnabled, jobFields, type Level } from "../observability/logs.ts";
import { RELEASED_VERDICT } from "../sdk/verdict.ts";
import {
  type ClaimedJob,
  leaseKey,
  type Note,
  type OutcomeReport,
  type Settled,
  type Token,
  type Verdict,
} from "../types/jobs.ts";
import { now } from "./clock.ts";
import type { LeaseTable } from "./leases.ts";
import type { NoteBuffer } from "./notes.ts";
import { type Report, SUCCEEDED } from "./runner-protocol.ts";

const MAX_BATCH = 1_000;
const MAX_BATCH_SIZE = 16 * 1024 ** 2;
// One batch that is being settled, and two that are claimed in the meantime. With more, V8 promotes
// their objects to the old generation, and a worker's memory grows by 20%.
const CAPACITY = 3 * MAX_BATCH;

// Pauses between attempts to settle a busy job.
const MIN_PAUSE_S = 0.05;
const MAX_PAUSE_S = 2;
// A batch in flight for this long may take longer still, so its leases are extended.
const SLOW_S = 1;
const MAX_LOGGED = 100;

const FAILURES: readonly string[] = ["failed", "timed_out", "crashed"];
const UNREADABLE = "InvalidOutcome";
const NO_ID = "00000000-0000-0000-0000-000000000000";

/** A class instead of an object literal, for the same reason as ClaimedJob. */
class FinishedRun {
  readonly job: ClaimedJob;
  readonly report: Report;
  readonly durationS: number;

  constructor(job: ClaimedJob, report: Report, durationS: number) {
    this.job = job;
    this.report = report;
    this.durationS = durationS;
  }
}

interface Busy {
  readonly finished: FinishedRun;
  readonly retries: number;
  readonly dueAt: number;
}

export class Settler {
  settled = 0;
  readonly #workerId: string;
  readonly #link: MonitoredLink;
  readonly #leases: LeaseTable;
  readonly #notes: NoteBuffer;
  readonly #onSettled: () => void;
  #finished: FinishedRun[] = [];
  #sending: FinishedRun[] = [];
  #sendingSince = Number.POSITIVE_INFINITY;
  #busy: Busy[] = [];
  /** Counts for the busy jobs in the current batch. */
  readonly #retryCounts = new Map<FinishedRun, number>();
  #isRetry = false;
  #pendingNotes: Note[] = [];
  #batchLimit = MAX_BATCH;
  #isWarm = false;

  constructor(
    workerId: string,
    link: MonitoredLink,
    parts: {
      readonly leases: LeaseTable;
      readonly notes: NoteBuffer;
      readonly onSettled: () => void;
    },
  ) {
    this.#workerId = workerId;
    this.#link = link;
    this.#leases = parts.leases;
    this.#notes = parts.notes;
    this.#onSettled = parts.onSettled;
    parts.leases.setUnsettledSource((heldForS) => this.#tokensToExtend(heldForS));
  }

  get size(): number {
    return this.#finished.length + this.#sending.length + this.#busy.length;
  }

  /**
   * Whether there is room for the outcomes of this many more jobs. Otherwise no jobs are claimed.
   */
  hasRoomFor(jobs: number): boolean {
    return this.size + jobs <= CAPACITY;
  }

  add(job: ClaimedJob, report: Report, durationS: number): void {
    this.#finished.push(new FinishedRun(job, report, durationS));
  }

  /** Settle the collected outcomes; wait if there are none. */
  async step(loop: BackgroundLoop): Promise<void> {
    // After a suspension of the process, stop jobs whose lease may be lost before anything else.
    this.#leases.stopOverdue();
    if (!this.#isWarm) await this.#warmUp();
    if (this.#sending.length === 0) {
      this.#sending = this.#takeDueBusy();
      this.#isRetry = this.#sending.length > 0;
      if (!this.#isRetry) this.#sending = this.#takeBatch();
      this.#sendingSince = now();
    }
    if (this.#sending.length === 0 && this.#pendingNotes.length === 0 && this.#notes.size === 0) {
      await loop.waitForWake(this.#nextRetryS());
      return;
    }
    // The outcomes were taken first, so the buffer contains all notes of these jobs.
    await this.#sendNotes();
    if (this.#sending.length > 0) await this.#settle();
  }

  /**
   * Settle a job that does not exist, while the first jobs are being claimed. This opens the
   * connection, and Postgres compiles and plans the function.
   */
  async #warmUp(): Promise<void> {
    this.#isWarm = true;
    const unknownJob = { tenant_id: NO_ID, job_id: NO_ID, lease: 0 };
    await this.#link.run(succeedJobs(this.#workerId, [unknownJob], null));
  }

  /**
   * Log the jobs that the reaper will have to end, because this worker shuts down without settling
   * them.
   */
  logUnsettled(): void {
    const busy = new Set([
      ...this.#busy.map(({ finished }) => finished),
      ...this.#retryCounts.keys(),
    ]);
    const left = [...new Set([...busy, ...this.#sending, ...this.#finished])];
    for (const finished of left.slice(0, MAX_LOGGED)) {
      const reason = busy.has(finished)
        ? "another transaction locks the job, or a row that is needed to finish it"
        : "the database has not responded";
      emit("job.unsettled", { ...jobFields(finished.job), reason }, "warning");
    }
  }

  /** Return the busy jobs, and all other finished jobs if the batch in flight is slow. */
  #tokensToExtend(heldForS: number): Token[] {
    const tokens = this.#busy.map(({ finished }) => finished.job);
    const isSlow =
      this.#sending.length > 0 && this.#sendingSince <= now() - Math.max(heldForS, SLOW_S);
    if (isSlow || this.#isRetry) tokens.push(...this.#sending.map(({ job }) => job));
    if (isSlow) tokens.push(...this.#finished.map(({ job }) => job));
    return tokens;
  }

  /** Return the busy jobs that are due for another attempt. */
  #takeDueBusy(): FinishedRun[] {
    if (this.#busy.length === 0) return [];
    const moment = now();
    const due = this.#busy.filter(({ dueAt }) => dueAt <= moment).slice(0, MAX_BATCH);
    const taken = new Set(due);
    this.#busy = this.#busy.filter((busy) => !taken.has(busy));
    for (const { finished, retries } of due) this.#retryCounts.set(finished, retries);
    return due.map(({ finished }) => finished);
  }

  #nextRetryS(): number | undefined {
    if (this.#busy.length === 0) return undefined;
    return Math.max(0, Math.min(...this.#busy.map(({ dueAt }) => dueAt)) - now());
  }

  #deferBusy(finished: FinishedRun): void {
    const retries = this.#retryCounts.get(finished) ?? 0;
    const pauseS = Math.min(MAX_PAUSE_S, MIN_PAUSE_S * 2 ** Math.min(retries, 10));
    const dueAt = now() + pauseS * (0.5 + 0.5 * Math.random());
    this.#busy.push({ finished, retries: retries + 1, dueAt });
  }

  #takeBatch(): FinishedRun[] {
    let count = 0;
    let weight = 0;
    for (const { report } of this.#finished) {
      if (count >= this.#batchLimit || weight >= MAX_BATCH_SIZE) break;
      count += 1;
      if (report !== SUCCEEDED) weight += estimateWeight(report);
    }
    if (count < this.#finished.length) return this.#finished.splice(0, count);
    const all = this.#finished;
    this.#finished = [];
    return all;
  }

  async #settle(): Promise<void> {
    try {
      if (!this.#isRetry) await this.#sendPlainSuccesses();
      if (this.#sending.length > 0) await this.#send(this.#sending);
    } catch (error) {
      if (error instanceof Unavailable || error instanceof Denied) throw error;
      this.#splitBatch(error);
      if (error instanceof Contended) throw error;
      return;
    }
    this.#sending = [];
    this.#batchLimit = Math.min(MAX_BATCH, this.#batchLimit * 2);
    this.#onSettled();
  }

  /** Isolate an outcome that cannot be sent, or whose job is locked, from the others. */
  #splitBatch(error: unknown): void {
    const [only] = this.#sending;
    if (this.#sending.length > 1 || only === undefined) {
      this.#batchLimit = Math.max(1, Math.floor(this.#sending.length / 2));
      this.#finished.unshift(...this.#sending.splice(this.#batchLimit));
    } else if (error instanceof Contended) {
      this.#finished.push(...this.#sending.splice(0));
    } else {
      this.#sending = replaceRefused(only, error);
    }
  }

  /**
   * Settle successes without output, which are most outcomes, with succeed_jobs, the fastest
   * function. Jobs that it does not settle stay in the batch for complete_jobs, which returns the
   * reason.
   */
  async #sendPlainSuccesses(): Promise<void> {
    const plain = this.#sending.filter(({ report }) => isPlainSuccess(report));
    if (plain.length === 0) return;
    const others =
      plain.length < this.#sending.length
        ? this.#sending.filter(({ report }) => !isPlainSuccess(report))
        : [];
    const jobs = plain.map(({ job }) => job);
    const hasResults = plain.some(({ report }) => report.verdict?.result !== undefined);
    const results = hasResults ? plain.map(({ report }) => report.verdict?.result) : null;
    const unsettled = await this.#link.run(succeedJobs(this.#workerId, jobs, results));
    const wasSettled = ({ job }: FinishedRun) =>
      unsettled.size === 0 || !unsettled.has(leaseKey(job));
    this.#sending = [...others, ...plain.filter((finished) => !wasSettled(finished))];
    this.settled += plain.length - unsettled.size;
    if (!isEnabled("debug")) return;
    for (const finished of plain.filter(wasSettled)) {
      logSettled(finished, { ...finished.job, status: "ok", state: "succeeded" });
    }
  }

  async #send(sending: readonly FinishedRun[]): Promise<void> {
    const reports = sending.map(({ job, report }) => buildReport(job, report));
    const results = await this.#link.run(completeJobs(this.#workerId, reports));
    const byLease = new Map(sending.map((finished) => [leaseKey(finished.job), finished] as const));
    for (const settled of results) {
      const finished = byLease.get(leaseKey(settled));
      if (finished === undefined) continue;
      if (settled.status === "busy") {
        this.#deferBusy(finished);
      } else {
        this.settled += 1;
        logSettled(finished, settled);
      }
      this.#retryCounts.delete(finished);
    }
  }

  async #sendNotes(): Promise<void> {
    // Notes that arrive while these are sent must not delay the outcomes.
    const { last } = this.#notes;
    while (this.#pendingNotes.length > 0 || this.#notes.hasNotesUntil(last)) {
      if (this.#pendingNotes.length === 0) this.#pendingNotes = await this.#notes.take();
      try {
        this.#leases.markLost(await this.#link.run(noteJobs(this.#workerId, this.#pendingNotes)));
      } catch (error) {
        const isPassing =
          error instanceof Unavailable || error instanceof Contended || error instanceof Denied;
        if (isPassing) throw error;
        // Notes that cannot be stored must not delay outcomes.
        emit("notes.refused", { error: String(error) }, "error");
      }
      this.#pendingNotes = [];
    }
  }
}

function isPlainSuccess(report: Report): boolean {
  if (report === SUCCEEDED) return true;
  if (report.verdict?.outcome !== "succeeded") return false;
  return (
    report.pid === undefined && report.stdout_tail === undefined && report.stderr_tail === undefined
  );
}

function buildReport(job: ClaimedJob, { verdict, ...report }: Report): OutcomeReport {
  return {
    tenant_id: job.tenant_id,
    job_id: job.job_id,
    lease: job.lease,
    started_at: job.started_at,
    ...(verdict ?? RELEASED_VERDICT),
    ...report,
  };
}

/** Estimate the size in bytes of JSON. */
function estimateWeight(report: Report): number {
  const result = report.verdict?.result;
  const tails = (report.stdout_tail?.length ?? 0) + (report.stderr_tail?.length ?? 0);
  if (result === undefined || typeof result === "number") return tails;
  return tails + (typeof result === "string" ? result.length : JSON.stringify(result).length);
}

function logSettled({ job, report, durationS }: FinishedRun, settled: Settled): void {
  const verdict = report.verdict ?? RELEASED_VERDICT;
  const [event, level] = chooseEvent(settled, verdict);
  if (!isEnabled(level)) return;
  const { type, message } = verdict.error ?? {};
  const fields = {
    ...jobFields(job),
    outcome: verdict.outcome,
    state: settled.state,
    error: type === undefined ? undefined : `${type}: ${message}`,
    duration_ms: Math.round(durationS * 1_000_000) / 1000,
  };
  emit(event, fields, level);
}

function chooseEvent(settled: Settled, verdict: Verdict): readonly [string, Level] {
  if (settled.status === "lost") {
    // A job that was completed in its own transaction no longer has a lease, as expected.
    const isCommitted = verdict.error?.type === NotCommitted.name;
    return isCommitted ? ["job.finished", "debug"] : ["job.lost", "warning"];
  }
  if (settled.state === "dead") return ["job.dead", "error"];
  return FAILURES.includes(verdict.outcome) ? ["job.failed", "warning"] : ["job.finished", "debug"];
}

/**
 * Return a final failure in place of an outcome that the engine rejected; nothing if it already was
 * that failure.
 */
function replaceRefused({ job, report, durationS }: FinishedRun, error: unknown): FinishedRun[] {
  emit("outcome.refused", { ...jobFields(job), error: String(error) }, "error");
  if (report.verdict?.error?.type === UNREADABLE) return [];
  const details = { type: UNREADABLE, message: String(error) };
  const verdict: Verdict = { outcome: "failed", error: details, final: true };
  return [new FinishedRun(job, { verdict }, durationS)];
}
