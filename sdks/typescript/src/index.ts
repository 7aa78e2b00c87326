/** The public API: apps, definitions, enqueuing, and what handlers receive and throw. */

export type { Queryable } from "./db/queryable.ts";
export * as errors from "./errors.ts";
export { redact, redactText, registerSecret } from "./redact/index.ts";
export { type AppOptions, JobForge } from "./sdk/app.ts";
export { Context, Log } from "./sdk/context.ts";
export type { Definition, Handler, Upgrade } from "./sdk/definition.ts";
export type { JobOptions, Rate } from "./sdk/definition-settings.ts";
export type { Duration } from "./sdk/duration.ts";
export type { EngineClient as Client } from "./sdk/engine-client.ts";
export type { Enqueuer, Many } from "./sdk/enqueue.ts";
export type { Using } from "./sdk/enqueue-options.ts";
export type { Handle } from "./sdk/handle.ts";
export {
  Cancel,
  Cancelled,
  Dead,
  Retry,
  type RetryPolicy,
  Snooze,
} from "./sdk/outcome-exceptions.ts";
export type { Event, Stored } from "./sdk/step-log.ts";
export {
  verifyWebhook,
  type WebhookHeaders,
  type WebhookMessage,
} from "./security/webhook-signature.ts";
export type {
  Enqueued,
  EnqueueStatus,
  Explanation,
  FinalState,
  History,
  Job,
  JobEvent,
  JobFilter,
  JobListing,
  Json,
  JsonObject,
  State,
} from "./types/jobs.ts";
