/** Options of a worker: its queues with their slots, and its intervals. */

import { ConfigError } from "../errors.ts";
import type { Runnable } from "../sdk/definition.ts";
import type { IsolationOptions } from "./isolation/runner.ts";

const SLOTS = 10;
// The engine's limits.
const MAX_QUEUES = 100;
const MAX_LEASE_S = 3600;

/** The options of `new Worker(…)`. */
export interface WorkerOptions extends IsolationOptions {
  /** Concurrent jobs of each queue (default: 10 for each queue that the app names). */
  readonly queues?: Readonly<Record<string, number>> | undefined;
  /** Folder with one file for each secret. */
  readonly secretsDir?: string | undefined;
  /** Duration of a lease, in seconds (default: 30). */
  readonly leaseS?: number | undefined;
  /** Seconds between heartbeats (default: 10); at most half of `leaseS`. */
  readonly heartbeatS?: number | undefined;
  /** Seconds between the polls of an idle worker (default: 1). */
  readonly pollS?: number | undefined;
  /** Seconds that running jobs have to finish after `stop()` (default: 30). */
  readonly drainS?: number | undefined;
  /** Build of the worker, such as a commit ID. */
  readonly build?: string | undefined;
}

/** Return the queues of the definitions, with 10 slots each. */
export function defaultQueues(definitions: readonly Runnable[]): Record<string, number> {
  return Object.fromEntries(definitions.map(({ settings }) => [settings.queue, SLOTS] as const));
}

/**
 * Throw ConfigError for options that the engine would reject, or with which leases would expire
 * between heartbeats.
 */
export function checkOptions(
  queues: Readonly<Record<string, number>>,
  leaseS: number,
  heartbeatS: number,
): void {
  const slots = Object.values(queues);
  if (slots.length === 0 || !slots.every((each) => Number.isInteger(each) && each >= 1)) {
    throw new ConfigError("A worker requires a queue, and each queue a slot", { field: "queues" });
  }
  if (slots.length > MAX_QUEUES) {
    throw new ConfigError(`A worker can serve at most ${MAX_QUEUES} queues`, { field: "queues" });
  }
  if (!(leaseS >= 1 && leaseS <= MAX_LEASE_S)) {
    throw new ConfigError(`leaseS must be between 1 and ${MAX_LEASE_S}`, { field: "lease_s" });
  }
  if (heartbeatS * 2 > leaseS) {
    throw new ConfigError("leaseS must be at least twice heartbeatS", { field: "heartbeat_s" });
  }
}
