/** The HTTP API: a client for jobs, and the types of its requests and responses. */

export * from "./client.ts";
export type { components, operations, paths } from "./types.ts";
