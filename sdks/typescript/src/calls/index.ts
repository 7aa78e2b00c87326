/** The engine's public functions, with one typed function for each; see docs/sql.md. */

export type { Call } from "./call.ts";
export * from "./events.ts";
export * from "./jobs.ts";
export * from "./worker.ts";
