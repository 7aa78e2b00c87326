/** The engine's public functions, one typed function for each; docs/sql.md explains them. */

export type { Call } from "./call.ts";
export * from "./events.ts";
export * from "./jobs.ts";
export * from "./worker.ts";
