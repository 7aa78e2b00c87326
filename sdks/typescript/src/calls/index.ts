/** The engine's public functions, with one typed function for each; see docs/sql.md. */

export { type Call, forTenant } from "./call.ts";
export * from "./events.ts";
export * from "./jobs.ts";
export * from "./worker.ts";
