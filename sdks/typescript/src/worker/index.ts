/**
 * The worker, for programs that run a worker themselves instead of the `jobforge-worker` command.
 */

export { configure as configureLogs, type LogSettings } from "../observability/logs.ts";
export type { WorkerOptions } from "./options.ts";
export { Worker } from "./worker.ts";
