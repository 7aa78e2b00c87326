/** The HTTP API: a client for jobs, and the types of everything that it speaks. */

export * from "./client.ts";
export type { components, operations, paths } from "./types.ts";
