/** The worker's end of one job's process: its messages, its output, and how to stop it. */

import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { constants, tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { JobForgeError } from "../../errors.ts";
import { redactInBackground } from "../../redact/background.ts";
import { jobScope, type RedactionScope } from "../../redact/index.ts";
import type { Runnable } from "../../sdk/definition.ts";
import type { ProcessLimits } from "../../sdk/definition-settings.ts";
import {
  type ExceededLimit,
  isFinal,
  type ProcessExit,
  type StopReason,
  verdictFromExit,
} from "../../sdk/verdict.ts";
import type { ClaimedJob, JsonObject, Verdict } from "../../types/jobs.ts";
import { now } from "../clock.ts";
import type { JobServices } from "../job-services.ts";
import type { OnEnd, Run } from "../runner-protocol.ts";
import { buildWarmEnvironment } from "./environment.ts";
import { heapFlag, limitCommand, residentBytes } from "./limits.ts";
import { encodeLine, InvalidLine, LineDecoder, MAX_LINE_BYTES } from "./lines.ts";
import {
  DEADLINE_FD,
  type JobMessage,
  MAX_OPEN_REQUESTS,
  MESSAGE_FD,
  type RequestError,
  type ResourceUsage,
  type ResponseValue,
  toJobMessage,
  type WorkerMessage,
} from "./messages.ts";
import { OutputTail } from "./output-tail.ts";
import { killTree, MARK_VARIABLE } from "./proc.ts";

// Data sent before the exit arrives within this time. A grandchild that still holds the pipes is
// not waited for.
const DRAIN_MS = 2_000;
const MEMORY_POLL_MS = 250;
// Node flags that must not be inherited; loaders and conditions are inherited.
const WORKER_ONLY_FLAGS =
  /^--(inspect|cpu-prof|heap-prof|test|watch|max-old-space-size|heap-growing-percent)/;
const UNREAD = "Sent requests to its worker without reading the responses";
const PROTOCOL_ERROR = "Wrote to the socket that is reserved for its worker";
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
  /** Handles each message after `ready`; null stands for data that is not a valid message. */
  onMessage: (message: JobMessage | null) => void = () => undefined;
  readonly #socket: Duplex;
  readonly #decoder = new LineDecoder(MAX_LINE_BYTES);
  #isDisconnected = false;

  constructor(module: string, limits: ProcessLimits) {
    const flags = process.execArgv.filter((flag) => !WORKER_ONLY_FLAGS.test(flag));
    const node = [process.execPath, ...flags, heapFlag(limits), CHILD, module];
    const [command, given] = limitCommand(limits, node);
    this.child = spawn(command, given, {
      // A separate session: terminal signals reach only the worker, and the whole group can be
      // killed.
      detached: true,
      stdio: ["ignore", "pipe", "pipe", "pipe", "pipe"],
      env: { ...buildWarmEnvironment(process.env), [MARK_VARIABLE]: this.mark },
    });
    this.child.stdout?.on("data", (data: Buffer) => this.stdout.feed(data));
    this.child.stderr?.on("data", (data: Buffer) => this.stderr.feed(data));
    // The exit event reports a lost process.
    this.child.on("error", () => undefined);
    this.child.stdio[DEADLINE_FD]?.on("error", () => undefined);
    this.#socket = this.child.stdio[MESSAGE_FD] as Duplex;
    this.#socket.on("error", () => undefined);
    this.ready = new Promise((resolve) => {
      this.#socket.on("data", (data: Buffer) => this.#feed(data, () => resolve(true)));
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

  /** Call `sent` when the process has received the message or is gone. */
  send(message: WorkerMessage, sent: () => void = () => undefined): void {
    if (this.#socket.writable) this.#socket.write(encodeLine(message), sent);
    else sent();
  }

  /** Send the deadline of the lease, which is by the worker's clock. */
  extend(deadline: number): void {
    const left = BigInt(Math.floor((deadline - now()) * 1e9));
    const pipe = this.child.stdio[DEADLINE_FD] as Writable | null | undefined;
    if (pipe?.writable) pipe.write(`${process.hrtime.bigint() + left}\n`);
  }

  /** Stop reading messages, and kill the process. */
  disconnectAndKill(): void {
    this.#isDisconnected = true;
    this.#socket.destroy();
    this.kill();
  }

  #feed(data: Buffer, onReady: () => void): void {
    if (this.#isDisconnected) return;
    try {
      for (const [document, length] of this.#decoder.feed(data)) {
        const message = toJobMessage(document, length);
        if (message === null) throw new InvalidLine();
        if (message.kind === "ready") onReady();
        else this.onMessage(message);
        if (this.#isDisconnected) return;
      }
    } catch (error) {
      if (!(error instanceof InvalidLine)) throw error;
      this.disconnectAndKill();
      this.onMessage(null);
    }
  }
}

/** A run in a separate process, from the job to the report. */
export class JobProcess implements Run {
  readonly job: ClaimedJob;
  hasEnded = false;
  readonly #definition: Runnable;
  readonly #services: JobServices;
  readonly #onEnd: OnEnd;
  readonly #process: WarmProcess;
  readonly #folder: string;
  #stopped: StopReason | null = null;
  #reported: Verdict | null = null;
  #usage: ResourceUsage | null = null;
  #grace: NodeJS.Timeout | undefined;
  #memoryWatch: NodeJS.Timeout | undefined;
  #exceededMemory = false;
  #hasExited = false;
  #openRequests = 0; // whose responses the process has not read

  constructor(
    warm: WarmProcess,
    job: ClaimedJob,
    definition: Runnable,
    parts: {
      readonly services: JobServices;
      readonly onEnd: OnEnd;
      readonly environment: readonly string[];
    },
  ) {
    this.job = job;
    this.#process = warm;
    this.#definition = definition;
    this.#services = parts.services;
    this.#onEnd = parts.onEnd;
    this.#folder = mkdtempSync(join(tmpdir(), "jobforge-job-"));
    warm.onMessage = (message) => this.#handleMessage(message);
    warm.child.once("exit", (code, signal) => void this.#end(code, signal));
    if (!warm.isAlive && warm.child.pid === undefined) void this.#end(null, null);
    void warm.ready.then((isReady) => isReady && this.#watchMemory(warm.child.pid ?? 0));
    warm.send({
      kind: "job",
      job,
      workerId: parts.services.workerId,
      folder: this.#folder,
      environment: parts.environment,
    });
  }

  stop(why: StopReason): void {
    if (this.#stopped !== null && !isFinal(why)) return;
    const wasAsked = this.#stopped !== null;
    this.#stopped = why;
    if (isFinal(why)) {
      this.#process.kill();
    } else if (!wasAsked) {
      this.#process.send({ kind: "stop" });
      this.#grace = setTimeout(() => this.#process.kill(), this.#definition.settings.graceS * 1000);
    }
  }

  extend(deadline: number): void {
    this.#process.extend(deadline);
  }

  /** Memory that importing the app took does not count towards the job's limit. */
  #watchMemory(pid: number): void {
    if (this.#hasExited) return;
    const most = residentBytes(pid) + this.#definition.settings.limits.memoryBytes;
    this.#memoryWatch = setInterval(() => {
      if (residentBytes(pid) <= most) return;
      this.#exceededMemory = true;
      this.#process.kill();
    }, MEMORY_POLL_MS);
  }

  #handleMessage(message: JobMessage | null): void {
    switch (message?.kind) {
      case undefined:
        this.#killForProtocolError(PROTOCOL_ERROR);
        break;
      case "note":
        this.#services.note(this.job, message.note, message.data);
        break;
      case "verdict":
        this.#reported = message.verdict;
        this.#usage = message.used;
        break;
      case "secret":
        void this.#respond(message.id, async () => this.#secret(message.name));
        break;
      case "enqueue":
        void this.#respond(message.id, () => this.#services.enqueue(this.job, message.jobs));
        break;
      case "step":
        void this.#respond(message.id, () => this.#saveStep(message));
        break;
      case "children":
        void this.#respond(message.id, () =>
          this.#services.enqueueChildren(this.job, message.name, message.index, message.jobs),
        );
        break;
      default:
    }
  }

  /** Kill the job, whose handler wrote to the socket itself. Its attempt has crashed. */
  #killForProtocolError(message: string): void {
    this.#reported = { outcome: "crashed", error: { type: "Crashed", message } };
    this.#process.disconnectAndKill();
  }

  #secret(name: string): string {
    const value = this.#services.secret(name);
    jobScope(this.job).add(value);
    return value;
  }

  async #saveStep({ name, index, result }: JobMessage & { readonly kind: "step" }): Promise<null> {
    await this.#services.saveStep(this.job, name, index, result);
    return null;
  }

  async #respond(id: number, find: () => Promise<ResponseValue>): Promise<void> {
    if (this.#openRequests >= MAX_OPEN_REQUESTS) {
      this.#killForProtocolError(UNREAD);
      return;
    }
    this.#openRequests += 1;
    this.#process.send(await buildResponse(id, find), () => {
      this.#openRequests -= 1;
    });
  }

  async #end(code: number | null, signal: NodeJS.Signals | null): Promise<void> {
    this.#hasExited = true;
    clearTimeout(this.#grace);
    clearInterval(this.#memoryWatch);
    this.#process.kill(); // descendants
    await drainOutput(this.#process.child);
    remove(this.#folder);
    const { stdout, stderr, child } = this.#process;
    const exit: ProcessExit = {
      code,
      signal,
      exceeded: this.#exceededMemory ? "memory" : findExceededLimit(signal, stderr),
    };
    const scope = jobScope(this.job);
    const verdict = verdictFromExit(exit, this.#stopped, this.#reported);
    const [redacted, stdout_tail, stderr_tail] = await Promise.all([
      verdict && redactVerdict(verdict, scope),
      stdout.text(scope),
      stderr.text(scope),
    ]);
    this.hasEnded = true;
    this.#onEnd(this.job, {
      verdict: redacted,
      exit_code: exitCode(code, signal),
      pid: child.pid,
      ...this.#usage,
      stdout_tail,
      stderr_tail,
    });
  }
}

/** Redact the verdict, because the process may not have done so. */
async function redactVerdict(verdict: Verdict, scope: RedactionScope): Promise<Verdict> {
  const { error, reason } = verdict;
  if (error === undefined && reason === undefined) return verdict;
  const [shown] = await redactInBackground([
    [{ value: { error: error ?? null, reason: reason ?? null } }, scope],
  ]);
  const redacted = shown as { error: JsonObject | null; reason: string | null };
  return { ...verdict, error: redacted.error ?? undefined, reason: redacted.reason ?? undefined };
}

/** Return the exit code in Python's format: negative after a signal. */
function exitCode(code: number | null, signal: NodeJS.Signals | null): number | undefined {
  return signal === null ? (code ?? undefined) : -constants.signals[signal];
}

function findExceededLimit(signal: string | null, stderr: OutputTail): ExceededLimit | null {
  if (signal === "SIGXCPU") return "cpu";
  if (signal === "SIGXFSZ") return "file_size";
  const isMemory =
    (signal === "SIGABRT" || signal === "SIGTRAP") && stderr.includes("out of memory");
  return isMemory ? "memory" : null;
}

async function buildResponse(
  id: number,
  find: () => Promise<ResponseValue>,
): Promise<WorkerMessage> {
  try {
    return { kind: "answer", id, value: await find() };
  } catch (error) {
    return { kind: "refusal", id, refusal: toRequestError(error) };
  }
}

function toRequestError(error: unknown): RequestError {
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
async function drainOutput(child: ChildProcess): Promise<void> {
  // The verdict may arrive after the exit event.
  const streams = [child.stdout, child.stderr, child.stdio[MESSAGE_FD]].filter(
    (each) => each != null,
  );
  const ended = streams.map((stream) =>
    stream.closed || stream.destroyed
      ? Promise.resolve()
      : new Promise<void>((resolve) => stream.once("close", resolve)),
  );
  let timer: NodeJS.Timeout | undefined;
  const timeUp = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, DRAIN_MS);
  });
  await Promise.race([Promise.all(ended), timeUp]);
  clearTimeout(timer);
  for (const stream of streams) stream.destroy();
  child.stdio[DEADLINE_FD]?.destroy();
}
