/** The worker, for programs that run one themselves; the command `jobforge-worker` does so too. */

export { configure as configureLogs, type LogSettings } from "../observability/logs.ts";
export type { WorkerOptions } from "./options.ts";
export { Worker } from "./worker.ts";
