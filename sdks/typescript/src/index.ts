/** JobForge for Node: definitions, enqueuing, and what handlers get and throw. */

export { type AppOptions, JobForge } from "./app.ts";
export type { Explanation, History } from "./calls/index.ts";
export type { Client } from "./client.ts";
export { Context, Log } from "./context.ts";
export type { Definition, Handler, Upgrade } from "./definition.ts";
export type { Duration } from "./duration.ts";
export type { Enqueuer, Many } from "./enqueuer.ts";
export * as errors from "./errors.ts";
export type { Handle } from "./handle.ts";
export type {
  Enqueued,
  EnqueueStatus,
  FinalState,
  Job,
  JobFilter,
  JobListing,
  Json,
  JsonObject,
  State,
} from "./job.ts";
export type { Using } from "./options.ts";
export type { Queryable } from "./queryable.ts";
export { redact, redactText, registerSecret } from "./redact/index.ts";
export type { JobOptions, Rate } from "./settings.ts";
export { Cancel, Cancelled, Dead, Retry, type RetryPolicy, Snooze } from "./signals.ts";
export type { Event, Stored } from "./steps.ts";
export { verifyWebhook, type WebhookHeaders, type WebhookMessage } from "./webhook.ts";
