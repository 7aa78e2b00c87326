/**
 * Inside a job's process: from its start, before there is a job, to the exit. It imports the app,
 * waits, takes its job, runs the handler, says how it went, and ends. It has no connection to the
 * database; whatever it needs from outside it asks of the worker.
 */

import { Worker as Thread } from "node:worker_threads";
import { byCode } from "../../db/sqlstates.ts";
import { Invalid, NotFound } from "../../errors.ts";
import { eraseEnvironment, refuseDebugger } from "../../process/hardening.ts";
import { jobScope } from "../../redact/index.ts";
import { findApp } from "../../sdk/app.ts";
import { type Channel, Context } from "../../sdk/context.ts";
import type { Runnable } from "../../sdk/definition.ts";
import { CURRENT, type Door } from "../../sdk/job-scope.ts";
import type { Waiting } from "../../sdk/step-log.ts";
import { returned, thrown, unusable, type Verdict, waits } from "../../sdk/verdict.ts";
import type {
  ClaimedJob,
  Enqueued,
  JobRequest,
  Json,
  JsonObject,
  NoteKind,
} from "../../types/jobs.ts";
import { reduce } from "./environment.ts";
import type { Answer, Order, Word } from "./messages.ts";
import { MARK } from "./proc.ts";

/** The way to the worker. */
class Wire implements Channel, Door {
  readonly #asked = new Map<
    number,
    { resolve(answer: Answer): void; reject(error: Error): void }
  >();
  #last = 0;
  /** Resolves when the handler has come to a wait. */
  readonly waited: Promise<Verdict>;
  #wait: (verdict: Verdict) => void = () => undefined;

  constructor() {
    this.waited = new Promise((resolve) => {
      this.#wait = resolve;
    });
  }

  note(note: NoteKind, data: JsonObject): void {
    say({ kind: "note", note, data });
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
      this.#asked.set(id, { resolve, reject });
      say(word(id));
    });
  }
}

function say(word: Word, sent: () => void = () => undefined): void {
  // After a disconnect the watchdog ends this process.
  if (process.connected) process.send?.(word, sent);
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
  process.on("message", (order: Order) => {
    if (order.kind === "job") void work(app.definitions, wire, order);
    else wire.take(order);
  });
  say({ kind: "ready" });
}

async function work(
  definitions: ReadonlyMap<string, Runnable>,
  wire: Wire,
  order: Order & { readonly kind: "job" },
): Promise<void> {
  const { job, workerId, folder, environment } = order;
  process.chdir(folder);
  const own = { HOME: folder, TMPDIR: folder, [MARK]: process.env[MARK] ?? "" };
  reduce(environment, { ...own, [`${MARK}_ID`]: job.job_id });
  const ctx = new Context(job, wire, workerId);
  process.on("message", (next: Order) => {
    if (next.kind === "stop") ctx.askToStop();
  });
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
  say({ kind: "verdict", used, verdict }, () => {
    process.stdout.write("", () => process.stderr.write("", () => process.exit(0)));
  });
}

// Other jobs could read in /proc what the app needs to be imported. The mark is how it is found.
eraseEnvironment(`${MARK}=${process.env[MARK]}`);
refuseDebugger();
process.on("SIGINT", () => undefined);
process.on("SIGTERM", () => undefined);
await main(process.argv[2] ?? "");
