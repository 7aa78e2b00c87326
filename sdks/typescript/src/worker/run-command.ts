/** The `jobforge-worker` command: runs the jobs of the app that a module exports. */

import { availableParallelism } from "node:os";
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { loadConfig, readQueues } from "../config.ts";
import { ConfigError, JobForgeError, NotFound, Unavailable } from "../errors.ts";
import { configure, emit } from "../observability/logs.ts";
import { withholdVariable } from "../process/environment.ts";
import { hideText, LOG_SCOPE, registerOperatorSecret } from "../redact/index.ts";
import { findApp, type JobForge } from "../sdk/app.ts";
import { Worker } from "./worker.ts";

const HELP = `jobforge-worker MODULE [options]

Runs the jobs of the app that MODULE exports: a .js or .mjs file, or a .ts file on Node 22.18 or
later (before that: node --import tsx node_modules/.bin/jobforge-worker MODULE).

  --database-url URL    JOBFORGE_DATABASE_URL
  --queues LIST         queues with slots, such as mail:10,default:4 (default: all of the app)
  --concurrency NUMBER  slots of queues without a number
  --warm NUMBER         processes that wait for jobs (default: 2)
  --lease-s, --heartbeat-s, --poll-s, --drain-s SECONDS
  --build TEXT          build name, shown with the worker
  --help

SIGTERM and SIGINT let it drain; the second one releases the running jobs.
`;
const NOT_HIDDEN =
  "jobs can read this process's variables in /proc, because it cannot write to /proc/self/mem";
const OPTIONS = {
  "database-url": { type: "string" },
  queues: { type: "string" },
  concurrency: { type: "string" },
  warm: { type: "string" },
  "lease-s": { type: "string" },
  "heartbeat-s": { type: "string" },
  "poll-s": { type: "string" },
  "drain-s": { type: "string" },
  build: { type: "string" },
  help: { type: "boolean" },
} as const;

/** Run the command with this process's arguments, then exit. */
export async function runWorkerCommand(isHidden: boolean): Promise<never> {
  try {
    process.exitCode = await main(isHidden);
  } catch (error) {
    emit("worker.failed", { error: String(error) }, "critical");
    const message = error instanceof JobForgeError ? error.message : formatError(error);
    process.stderr.write(`jobforge-worker: ${hideText(message, LOG_SCOPE)}\n`);
    process.exitCode = error instanceof Unavailable ? 7 : 1;
  }
  // Open handles of the app, or abandoned handlers, would otherwise keep the process alive.
  process.exit();
}

async function main(isHidden: boolean): Promise<number> {
  const { values, positionals } = parseArgs({ options: OPTIONS, allowPositionals: true });
  const [path] = positionals;
  if (values.help || path === undefined || positionals.length > 1) {
    process[values.help ? "stdout" : "stderr"].write(HELP);
    return values.help ? 0 : 2;
  }
  if (values["database-url"]) withholdVariable("JOBFORGE_DATABASE_URL", values["database-url"]);
  const config = loadConfig();
  if (config.key) registerOperatorSecret(config.key);
  const module = pathToFileURL(resolve(path)).href;
  const app = await importApp(module, path);
  const slots =
    parseNumber(values.concurrency) ?? config.concurrency ?? 2 * availableParallelism() + 6;
  const queues = values.queues ?? config.queues ?? [...listQueues(app)].join(",");
  const worker = new Worker(app, {
    module,
    queues: readQueues(queues, slots),
    warm: parseNumber(values.warm),
    jobEnvironment: config.jobEnvironment,
    secretsDir: config.secretsDir,
    leaseS: parseNumber(values["lease-s"]) ?? config.leaseS,
    heartbeatS: parseNumber(values["heartbeat-s"]) ?? config.heartbeatS,
    pollS: parseNumber(values["poll-s"]) ?? config.pollS,
    drainS: parseNumber(values["drain-s"]) ?? config.drainS,
    build: values.build,
  });
  configure({ level: config.logLevel, workerId: worker.workerId });
  if (!isHidden) emit("environment.not_hidden", { reason: NOT_HIDDEN }, "warning");
  let signals = 0;
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.on(signal, () => {
      signals += 1;
      worker.stop();
    });
  }
  let hasFailed = false;
  // A floating promise of one inline handler must not end the other jobs.
  process.on("unhandledRejection", (error) => {
    emit("worker.failed", { error: formatError(error) }, "error");
  });
  process.on("uncaughtException", (error) => {
    emit("worker.failed", { error: formatError(error) }, "critical");
    if (!hasFailed) worker.stop();
    hasFailed = true;
  });
  await worker.run();
  return signals > 1 || hasFailed ? 1 : 0;
}

function formatError(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}

async function importApp(module: string, path: string): Promise<JobForge> {
  let exports: Record<string, unknown>;
  try {
    exports = (await import(module)) as Record<string, unknown>;
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ERR_UNKNOWN_FILE_EXTENSION") throw error;
    throw new ConfigError(
      `This Node cannot import ${path}; use Node 22.18 or later, node --import tsx, or a .js file`,
    );
  }
  const app = findApp(exports);
  if (app === null)
    throw new NotFound(
      `${path} does not export a JobForge instance; add export const jf = new JobForge()`,
    );
  return app;
}

function listQueues(app: JobForge): ReadonlySet<string> {
  return new Set([...app.definitions.values()].map(({ settings }) => settings.queue));
}

function parseNumber(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!Number.isFinite(value) || value < 0) throw new ConfigError(`'${text}' is not a number`);
  return value;
}
