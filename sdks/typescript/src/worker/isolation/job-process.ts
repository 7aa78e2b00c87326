/** The worker's end of one job's process: its messages, its output, and how to stop it. */

import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { JobForgeError } from "../../errors.ts";
import { redactInBackground } from "../../redact/background.ts";
import { jobScope, type RedactionScope } from "../../redact/index.ts";
import type { Runnable } from "../../sdk/definition.ts";
import type { ProcessLimits } from "../../sdk/settings.ts";
import {
  type ExceededLimit,
  isFinal,
  type ProcessExit,
  type StopReason,
  type Verdict,
  verdictFromExit,
} from "../../sdk/verdict.ts";
import type { ClaimedJob, JsonObject } from "../../types/jobs.ts";
import { now } from "../clock.ts";
import type { JobServices, OnEnd, Run } from "../runner.ts";
import { buildWarmEnvironment } from "./environment.ts";
import { heapFlag, limitCommand, residentBytes } from "./limits.ts";
import {
  DEADLINE_FD,
  type JobMessage,
  type RequestError,
  type ResourceUsage,
  type ResponseValue,
  type WorkerMessage,
} from "./messages.ts";
import { OutputTail } from "./output-tail.ts";
import { killTree, MARK_VARIABLE } from "./proc.ts";

// Data sent before the exit arrives within this time. A grandchild that still holds the pipes is
// not waited for.
const DRAIN_MS = 2_000;
const WEIGH_MS = 250;
// Node flags that must not be inherited; loaders and conditions are inherited.
const OF_THE_WORKER =
  /^--(inspect|cpu-prof|heap-prof|test|watch|max-old-space-size|heap-growing-percent)/;
const NOTES: readonly string[] = ["progress", "log", "event"];
const EXTENSION = import.meta.url.slice(import.meta.url.lastIndexOf("."));
const CHILD = fileURLToPath(new URL(`./child${EXTENSION}`, import.meta.url));

/** A process that has imported the app and waits for a job. */
export class WarmProcess {
  readonly child: ChildProcess;
  readonly mark = randomUUID();
  readonly stdout = new OutputTail();
  readonly stderr = new OutputTail();
  /** Resolves to false if the process ended before it was ready. */
  readonly ready: Promise<boolean>;

  constructor(module: string, limits: ProcessLimits) {
    const flags = process.execArgv.filter((flag) => !OF_THE_WORKER.test(flag));
    const node = [process.execPath, ...flags, heapFlag(limits), CHILD, module];
    const [command, given] = limitCommand(limits, node);
    this.child = spawn(command, given, {
      // A separate session: terminal signals reach only the worker, and the whole group can be
      // killed.
      detached: true,
      stdio: ["ignore", "pipe", "pipe", "ipc", "pipe"],
      env: { ...buildWarmEnvironment(process.env), [MARK_VARIABLE]: this.mark },
    });
    this.child.stdout?.on("data", (data: Buffer) => this.stdout.feed(data));
    this.child.stderr?.on("data", (data: Buffer) => this.stderr.feed(data));
    // The exit event reports a lost process.
    this.child.on("error", () => undefined);
    this.child.stdio[DEADLINE_FD]?.on("error", () => undefined);
    this.ready = new Promise((resolve) => {
      this.child.on("message", (word: JobMessage) => word.kind === "ready" && resolve(true));
      this.child.on("exit", () => resolve(false));
      this.child.on("error", () => resolve(false));
    });
  }

  get isAlive(): boolean {
    return (
      this.child.pid !== undefined && this.child.exitCode === null && this.child.signalCode === null
    );
  }

  kill(): void {
    if (this.child.pid !== undefined) killTree(this.child.pid, this.mark);
  }

  send(order: WorkerMessage): void {
    if (this.child.connected) this.child.send(order, () => undefined);
  }

  /** Send the deadline of the lease, which is by the worker's clock. */
  extend(deadline: number): void {
    const left = BigInt(Math.floor((deadline - now()) * 1e9));
    const pipe = this.child.stdio[DEADLINE_FD] as Writable | null | undefined;
    if (pipe?.writable) pipe.write(`${process.hrtime.bigint() + left}\n`);
  }
}

/** A run in a separate process, from the job to the report. */
export class JobProcess implements Run {
  readonly job: ClaimedJob;
  hasEnded = false;
  readonly #definition: Runnable;
  readonly #host: JobServices;
  readonly #onEnd: OnEnd;
  readonly #waiting: WarmProcess;
  readonly #folder: string;
  #stopped: StopReason | null = null;
  #said: Verdict | null = null;
  #used: ResourceUsage | null = null;
  #grace: NodeJS.Timeout | undefined;
  #weighing: NodeJS.Timeout | undefined;
  #isTooHeavy = false;
  #isOver = false;

  constructor(
    waiting: WarmProcess,
    job: ClaimedJob,
    definition: Runnable,
    parts: {
      readonly host: JobServices;
      readonly onEnd: OnEnd;
      readonly environment: readonly string[];
    },
  ) {
    this.job = job;
    this.#waiting = waiting;
    this.#definition = definition;
    this.#host = parts.host;
    this.#onEnd = parts.onEnd;
    this.#folder = mkdtempSync(join(tmpdir(), "jobforge-job-"));
    waiting.child.on("message", (word: JobMessage) => this.#take(word));
    waiting.child.once("exit", (code, signal) => void this.#end(code, signal));
    if (!waiting.isAlive && waiting.child.pid === undefined) void this.#end(null, null);
    void waiting.ready.then((isReady) => isReady && this.#weigh(waiting.child.pid ?? 0));
    waiting.send({
      kind: "job",
      job,
      workerId: parts.host.workerId,
      folder: this.#folder,
      environment: parts.environment,
    });
  }

  stop(why: StopReason): void {
    if (this.#stopped !== null && !isFinal(why)) return;
    const wasAsked = this.#stopped !== null;
    this.#stopped = why;
    if (isFinal(why)) {
      this.#waiting.kill();
    } else if (!wasAsked) {
      this.#waiting.send({ kind: "stop" });
      this.#grace = setTimeout(() => this.#waiting.kill(), this.#definition.settings.graceS * 1000);
    }
  }

  extend(deadline: number): void {
    this.#waiting.extend(deadline);
  }

  /** Memory that importing the app took does not count towards the job's limit. */
  #weigh(pid: number): void {
    if (this.#isOver) return;
    const most = residentBytes(pid) + this.#definition.settings.limits.memoryBytes;
    this.#weighing = setInterval(() => {
      if (residentBytes(pid) <= most) return;
      this.#isTooHeavy = true;
      this.#waiting.kill();
    }, WEIGH_MS);
  }

  #take(word: JobMessage): void {
    switch (word.kind) {
      case "note":
        // The engine would reject a whole batch because of one invalid note.
        if (NOTES.includes(word.note) && typeof word.data === "object" && word.data !== null) {
          this.#host.note(this.job, word.note, word.data);
        }
        break;
      case "verdict":
        this.#said = word.verdict;
        this.#used = word.used;
        break;
      case "secret":
        void this.#answer(word.id, async () => this.#secret(word.name));
        break;
      case "enqueue":
        void this.#answer(word.id, () => this.#host.enqueue(this.job, word.jobs));
        break;
      case "step":
        void this.#answer(word.id, () => this.#saved(word));
        break;
      case "children":
        void this.#answer(word.id, () =>
          this.#host.enqueueChildren(this.job, word.name, word.index, word.jobs),
        );
        break;
      default:
    }
  }

  #secret(name: string): string {
    const value = this.#host.secret(name);
    jobScope(this.job).add(value);
    return value;
  }

  async #saved({ name, index, result }: JobMessage & { readonly kind: "step" }): Promise<null> {
    await this.#host.saveStep(this.job, name, index, result);
    return null;
  }

  async #answer(id: number, find: () => Promise<ResponseValue>): Promise<void> {
    try {
      this.#waiting.send({ kind: "answer", id, value: await find() });
    } catch (error) {
      this.#waiting.send({ kind: "refusal", id, refusal: refusalOf(error) });
    }
  }

  async #end(code: number | null, signal: NodeJS.Signals | null): Promise<void> {
    this.#isOver = true;
    clearTimeout(this.#grace);
    clearInterval(this.#weighing);
    this.#waiting.kill(); // descendants
    await drained(this.#waiting.child);
    remove(this.#folder);
    const { stdout, stderr, child } = this.#waiting;
    const how: ProcessExit = {
      code,
      signal,
      exceeded: this.#isTooHeavy ? "memory" : over(signal, stderr),
    };
    const scope = jobScope(this.job);
    const verdict = verdictFromExit(how, this.#stopped, this.#said);
    const [said, stdout_tail, stderr_tail] = await Promise.all([
      verdict && withoutSecrets(verdict, scope),
      stdout.text(scope),
      stderr.text(scope),
    ]);
    this.hasEnded = true;
    this.#onEnd(this.job, {
      verdict: said,
      exit_code: exitCode(code, signal),
      pid: child.pid,
      ...this.#used,
      stdout_tail,
      stderr_tail,
    });
  }
}

/** Redact the verdict, because the process may not have done so. */
async function withoutSecrets(verdict: Verdict, scope: RedactionScope): Promise<Verdict> {
  const { error, reason } = verdict;
  if (error === undefined && reason === undefined) return verdict;
  const [shown] = await redactInBackground([
    [{ value: { error: error ?? null, reason: reason ?? null } }, scope],
  ]);
  const said = shown as { error: JsonObject | null; reason: string | null };
  return { ...verdict, error: said.error ?? undefined, reason: said.reason ?? undefined };
}

/** Return the exit code in Python's format: negative after a signal. */
function exitCode(code: number | null, signal: NodeJS.Signals | null): number | undefined {
  return signal === null ? (code ?? undefined) : -constants.signals[signal];
}

function over(signal: string | null, stderr: OutputTail): ExceededLimit | null {
  if (signal === "SIGXCPU") return "cpu";
  if (signal === "SIGXFSZ") return "file_size";
  const isMemory =
    (signal === "SIGABRT" || signal === "SIGTRAP") && stderr.includes("out of memory");
  return isMemory ? "memory" : null;
}

function refusalOf(error: unknown): RequestError {
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof JobForgeError)) return { code: "error", message };
  return { code: error.code, message, field: error.field };
}

function remove(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch {
    // Files that cannot be removed stay in the temporary folder.
  }
}

/** Wait until all messages and output of the process have been read. */
async function drained(child: ChildProcess): Promise<void> {
  const streams = [child.stdout, child.stderr].filter((each) => each !== null);
  const ended = streams.map((stream) =>
    stream.closed || stream.destroyed
      ? Promise.resolve()
      : new Promise<void>((resolve) => stream.once("close", resolve)),
  );
  // The verdict may arrive after the exit event.
  if (child.connected) ended.push(new Promise((resolve) => child.once("disconnect", resolve)));
  let timer: NodeJS.Timeout | undefined;
  const timeUp = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, DRAIN_MS);
  });
  await Promise.race([Promise.all(ended), timeUp]);
  clearTimeout(timer);
  for (const stream of streams) stream.destroy();
  child.stdio[DEADLINE_FD]?.destroy();
}
