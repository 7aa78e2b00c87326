/**
 * A job's process, from its start to its exit. It imports the app, waits for a job, runs the
 * handler, sends the verdict, and exits. It has no database connection; the worker serves its
 * requests.
 */

import { Socket } from "node:net";
import { Worker as Thread } from "node:worker_threads";
import { classFromCode } from "../../db/sqlstates.ts";
import { Invalid, NotFound } from "../../errors.ts";
import { eraseEnvironment, refuseDebugger } from "../../process/hardening.ts";
import { jobScope } from "../../redact/index.ts";
import { findApp } from "../../sdk/app.ts";
import { CURRENT_JOB, type JobProcessChannel } from "../../sdk/call-context.ts";
import { Context, type JobChannel } from "../../sdk/context.ts";
import type { Runnable } from "../../sdk/definition.ts";
import type { Suspension } from "../../sdk/step-log.ts";
import {
  verdictFromError,
  verdictFromInvalidResult,
  verdictFromResult,
  verdictFromWait,
} from "../../sdk/verdict.ts";
import type {
  ClaimedJob,
  Enqueued,
  JobRequest,
  Json,
  JsonObject,
  NoteKind,
  Verdict,
} from "../../types/jobs.ts";
import { restrictEnvironment } from "./environment.ts";
import { encodeLine, LineDecoder, MAX_LINE_BYTES } from "./lines.ts";
import {
  type JobMessage,
  MAX_NOTE_BYTES,
  MAX_OPEN_REQUESTS,
  MESSAGE_FD,
  type ResourceUsage,
  type ResponseValue,
  type WorkerMessage,
} from "./messages.ts";
import { MARK_VARIABLE } from "./proc.ts";

const socket = new Socket({ fd: MESSAGE_FD, readable: true, writable: true });
// The watchdog ends this process when its worker is gone.
socket.on("error", () => undefined);

/** The connection to the worker. */
class WorkerChannel implements JobChannel, JobProcessChannel {
  readonly #requests = new Map<
    number,
    { resolve(answer: ResponseValue): void; reject(error: Error): void }
  >();
  readonly #delayed: string[] = []; // requests to send after responses to earlier ones
  #last = 0;
  /** Resolves when the handler starts to wait. */
  readonly waited: Promise<Verdict>;
  #resolveWait: (verdict: Verdict) => void = () => undefined;

  constructor() {
    this.waited = new Promise((resolve) => {
      this.#resolveWait = resolve;
    });
  }

  note(note: NoteKind, data: JsonObject): void {
    const line = encodeLine({ kind: "note", note, data } satisfies JobMessage);
    checkLength(line, MAX_NOTE_BYTES, "data");
    socket.write(line);
  }

  async secret(name: string): Promise<string> {
    return (await this.#request((id) => ({ kind: "secret", id, name }))) as string;
  }

  async enqueue(jobs: readonly JobRequest[]): Promise<readonly Enqueued[]> {
    return (await this.#request((id) => ({ kind: "enqueue", id, jobs }))) as readonly Enqueued[];
  }

  async saveStep(name: string, index: number, result: Json): Promise<void> {
    await this.#request((id) => ({ kind: "step", id, name, index, result }));
  }

  async enqueueChildren(
    name: string,
    index: number,
    jobs: readonly JobRequest[],
  ): Promise<readonly Enqueued[]> {
    const build = (id: number) => ({ kind: "children", id, name, index, jobs }) as const;
    return (await this.#request(build)) as readonly Enqueued[];
  }

  wait(suspension: Suspension): void {
    this.#resolveWait(verdictFromWait(suspension));
  }

  receive(message: WorkerMessage): void {
    if (message.kind !== "answer" && message.kind !== "refusal") return;
    const request = this.#requests.get(message.id);
    this.#requests.delete(message.id);
    const delayed = this.#delayed.shift();
    if (delayed !== undefined) socket.write(delayed);
    if (message.kind === "answer") request?.resolve(message.value);
    else {
      const { code, message: text, field } = message.refusal;
      request?.reject(new (classFromCode(code))(text, { field }));
    }
  }

  #request(build: (id: number) => JobMessage): Promise<ResponseValue> {
    this.#last += 1;
    const id = this.#last;
    return new Promise((resolve, reject) => {
      const line = encodeLine(build(id));
      checkLength(line, MAX_LINE_BYTES, "jobs");
      this.#requests.set(id, { resolve, reject });
      if (this.#requests.size > MAX_OPEN_REQUESTS) this.#delayed.push(line);
      else socket.write(line);
    });
  }
}

/** Throw Invalid if the line is too long, because the worker kills a job that sends such a line. */
function checkLength(line: string, maxBytes: number, field: string): void {
  const length = Buffer.byteLength(line) - 1;
  if (length <= maxBytes) return;
  throw new Invalid(`The message of ${length} bytes exceeds the limit of ${maxBytes} bytes`, {
    field,
  });
}

async function main(module: string): Promise<void> {
  const extension = import.meta.url.slice(import.meta.url.lastIndexOf("."));
  const watchdog = new Thread(new URL(`./watchdog${extension}`, import.meta.url), {
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 4, codeRangeSizeMb: 8 },
  });
  watchdog.unref();
  const app = findApp((await import(module)) as Record<string, unknown>);
  if (app === null) throw new NotFound(`${module} does not export a JobForge instance`);
  const worker = new WorkerChannel();
  const decoder = new LineDecoder(Number.POSITIVE_INFINITY);
  let ctx: Context | null = null;
  socket.on("data", (data: Buffer) => {
    for (const [document] of decoder.feed(data)) {
      const message = document as WorkerMessage;
      if (message.kind === "stop") ctx?.requestStop();
      else if (message.kind !== "job") worker.receive(message);
      else {
        ctx = new Context(message.job, worker, message.workerId);
        void runJob(app.definitions, worker, message, ctx);
      }
    }
  });
  socket.write(encodeLine({ kind: "ready" } satisfies JobMessage));
}

async function runJob(
  definitions: ReadonlyMap<string, Runnable>,
  worker: WorkerChannel,
  { job, folder, environment }: WorkerMessage & { readonly kind: "job" },
  ctx: Context,
): Promise<void> {
  process.chdir(folder);
  const variables = {
    HOME: folder,
    TMPDIR: folder,
    [MARK_VARIABLE]: process.env[MARK_VARIABLE] ?? "",
  };
  restrictEnvironment(environment, { ...variables, [`${MARK_VARIABLE}_ID`]: job.job_id });
  const running = runHandler(definitions.get(job.definition), ctx, job, worker);
  const verdict = await Promise.race([worker.waited, running]);
  process.exitCode = 0;
  reportAndExit(verdict);
}

async function runHandler(
  definition: Runnable | undefined,
  ctx: Context,
  job: ClaimedJob,
  channel: JobProcessChannel,
): Promise<Verdict> {
  if (definition === undefined) {
    const error = new NotFound(`The app has no definition '${job.definition}'`);
    return verdictFromError(error, { giveUpOn: [] }, null, jobScope(job));
  }
  try {
    const current = { tenantId: job.tenant_id, channel };
    const result = await CURRENT_JOB.run(current, async () => await definition.invoke(ctx, job));
    try {
      return verdictFromResult(definition.dump(ctx, result));
    } catch (error) {
      if (error instanceof Invalid) return verdictFromInvalidResult(error, jobScope(job));
      throw error;
    }
  } catch (error) {
    return verdictFromError(error, definition.settings, null, jobScope(job));
  }
}

function reportAndExit(verdict: Verdict): void {
  const usage = process.resourceUsage();
  const used = {
    cpu_ms: Math.round((usage.userCPUTime + usage.systemCPUTime) / 1000),
    peak_memory_bytes: usage.maxRSS * 1024,
  };
  // Flush the output before the exit, because writes to pipes are asynchronous.
  socket.write(encodeVerdict(verdict, used), () => {
    process.stdout.write("", () => process.stderr.write("", () => process.exit(0)));
  });
}

/** Return the line of the verdict; a result that does not fit in a line fails the job. */
function encodeVerdict(verdict: Verdict, used: ResourceUsage): string {
  const line = encodeLine({ kind: "verdict", used, verdict } satisfies JobMessage);
  if (Buffer.byteLength(line) <= MAX_LINE_BYTES) return line;
  const message = `The result is larger than ${MAX_LINE_BYTES} bytes`;
  const failed: Verdict = {
    outcome: "failed",
    error: { type: "ResultTooLarge", message },
    final: true,
  };
  return encodeLine({ kind: "verdict", used, verdict: failed } satisfies JobMessage);
}

// Other jobs can read this process's environment in /proc, which has the app's variables. The mark
// stays, because killTree finds processes by it.
eraseEnvironment(`${MARK_VARIABLE}=${process.env[MARK_VARIABLE]}`);
refuseDebugger();
process.on("SIGINT", () => undefined);
process.on("SIGTERM", () => undefined);
await main(process.argv[2] ?? "");
