/**
 * Inside a job's process: from its start, before there is a job, to the exit. It imports the app,
 * waits, takes its job, runs the handler, says how it went, and ends. It has no connection to the
 * database; whatever it needs from outside it asks of the worker.
 */

import { Socket } from "node:net";
import { Worker as Thread } from "node:worker_threads";
import { findApp } from "../app.ts";
import { type Channel, Context } from "../context.ts";
import { CURRENT, type Door } from "../current.ts";
import type { Runnable } from "../definition.ts";
import { Invalid, NotFound } from "../errors.ts";
import { eraseEnvironment, refuseDebugger } from "../hardening.ts";
import type { ClaimedJob, Enqueued, JobRequest, Json, JsonObject, NoteKind } from "../job.ts";
import { jobScope } from "../redact/index.ts";
import { byCode } from "../sqlstates.ts";
import type { Waiting } from "../steps.ts";
import { returned, thrown, unusable, type Verdict, waits } from "../verdict.ts";
import { reduce } from "./environment.ts";
import { Lines, LONGEST_LINE, lineOf } from "./lines.ts";
import { MARK } from "./tree.ts";
import {
  type Answer,
  LONGEST_NOTE,
  MESSAGES,
  MOST_QUESTIONS,
  type Order,
  type Used,
  type Word,
} from "./wire.ts";

const socket = new Socket({ fd: MESSAGES, readable: true, writable: true });
// The watchdog ends this process when its worker is gone.
socket.on("error", () => undefined);

/** The way to the worker. */
class Wire implements Channel, Door {
  readonly #asked = new Map<
    number,
    { resolve(answer: Answer): void; reject(error: Error): void }
  >();
  #last = 0;
  readonly #held: string[] = []; // questions that are asked when others are answered
  /** Resolves when the handler has come to a wait. */
  readonly waited: Promise<Verdict>;
  #wait: (verdict: Verdict) => void = () => undefined;

  constructor() {
    this.waited = new Promise((resolve) => {
      this.#wait = resolve;
    });
  }

  note(note: NoteKind, data: JsonObject): void {
    const line = lineOf({ kind: "note", note, data } satisfies Word);
    checkLength(line, LONGEST_NOTE, "data");
    socket.write(line);
  }

  async secret(name: string): Promise<string> {
    return (await this.#ask((id) => ({ kind: "secret", id, name }))) as string;
  }

  async enqueue(jobs: readonly JobRequest[]): Promise<readonly Enqueued[]> {
    return (await this.#ask((id) => ({ kind: "enqueue", id, jobs }))) as readonly Enqueued[];
  }

  async saveStep(name: string, index: number, result: Json): Promise<void> {
    await this.#ask((id) => ({ kind: "step", id, name, index, result }));
  }

  async enqueueChildren(
    name: string,
    index: number,
    jobs: readonly JobRequest[],
  ): Promise<readonly Enqueued[]> {
    const word = (id: number) => ({ kind: "children", id, name, index, jobs }) as const;
    return (await this.#ask(word)) as readonly Enqueued[];
  }

  wait(waiting: Waiting): void {
    this.#wait(waits(waiting));
  }

  take(order: Order): void {
    if (order.kind !== "answer" && order.kind !== "refusal") return;
    const asked = this.#asked.get(order.id);
    this.#asked.delete(order.id);
    const next = this.#held.shift();
    if (next !== undefined) socket.write(next);
    if (order.kind === "answer") asked?.resolve(order.value);
    else {
      const { code, message, field } = order.refusal;
      asked?.reject(new (byCode(code))(message, { field }));
    }
  }

  #ask(word: (id: number) => Word): Promise<Answer> {
    this.#last += 1;
    const id = this.#last;
    return new Promise((resolve, reject) => {
      const line = lineOf(word(id));
      checkLength(line, LONGEST_LINE, "jobs");
      this.#asked.set(id, { resolve, reject });
      if (this.#asked.size > MOST_QUESTIONS) this.#held.push(line);
      else socket.write(line);
    });
  }
}

/** Throws before anything is sent: the worker ends a job whose line is longer. */
function checkLength(line: string, longest: number, field: string): void {
  const length = Buffer.byteLength(line) - 1;
  if (length <= longest) return;
  throw new Invalid(`${length} bytes are more than the ${longest} that fit in one message`, {
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
  if (app === null) throw new NotFound(`${module} exports no JobForge`);
  const wire = new Wire();
  const lines = new Lines(Number.POSITIVE_INFINITY);
  let ctx: Context | null = null;
  socket.on("data", (data: Buffer) => {
    for (const [document] of lines.feed(data)) {
      const order = document as Order;
      if (order.kind === "stop") ctx?.askToStop();
      else if (order.kind !== "job") wire.take(order);
      else {
        ctx = new Context(order.job, wire, order.workerId);
        void work(app.definitions, wire, order, ctx);
      }
    }
  });
  socket.write(lineOf({ kind: "ready" } satisfies Word));
}

async function work(
  definitions: ReadonlyMap<string, Runnable>,
  wire: Wire,
  { job, folder, environment }: Order & { readonly kind: "job" },
  ctx: Context,
): Promise<void> {
  process.chdir(folder);
  const own = { HOME: folder, TMPDIR: folder, [MARK]: process.env[MARK] ?? "" };
  reduce(environment, { ...own, [`${MARK}_ID`]: job.job_id });
  const running = verdictOf(definitions.get(job.definition), ctx, job, wire);
  const verdict = await Promise.race([wire.waited, running]);
  process.exitCode = 0;
  end(verdict);
}

async function verdictOf(
  definition: Runnable | undefined,
  ctx: Context,
  job: ClaimedJob,
  door: Door,
): Promise<Verdict> {
  if (definition === undefined) {
    const error = new NotFound(`the app has no ${job.definition}`);
    return thrown(error, { giveUpOn: [] }, null, jobScope(job));
  }
  try {
    const current = { tenantId: job.tenant_id, door };
    const result = await CURRENT.run(current, async () => await definition.invoke(ctx, job));
    try {
      return returned(definition.dump(ctx, result));
    } catch (error) {
      if (error instanceof Invalid) return unusable(error, jobScope(job));
      throw error;
    }
  } catch (error) {
    return thrown(error, definition.settings, null, jobScope(job));
  }
}

function end(verdict: Verdict): void {
  const usage = process.resourceUsage();
  const used = {
    cpu_ms: Math.round((usage.userCPUTime + usage.systemCPUTime) / 1000),
    peak_memory_bytes: usage.maxRSS * 1024,
  };
  // What was printed has to be out before the exit: pipes are written without waiting.
  socket.write(verdictLine(verdict, used), () => {
    process.stdout.write("", () => process.stderr.write("", () => process.exit(0)));
  });
}

function verdictLine(verdict: Verdict, used: Used): string {
  const line = lineOf({ kind: "verdict", used, verdict } satisfies Word);
  if (Buffer.byteLength(line) <= LONGEST_LINE) return line;
  const message = `a result has at most ${LONGEST_LINE} bytes`;
  const failed: Verdict = {
    outcome: "failed",
    error: { type: "ResultTooLarge", message },
    final: true,
  };
  return lineOf({ kind: "verdict", used, verdict: failed } satisfies Word);
}

// Other jobs could read in /proc what the app needs to be imported. The mark is how it is found.
eraseEnvironment(`${MARK}=${process.env[MARK]}`);
refuseDebugger();
process.on("SIGINT", () => undefined);
process.on("SIGTERM", () => undefined);
await main(process.argv[2] ?? "");
