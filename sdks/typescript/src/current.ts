/** The tenant of the job that the code now running belongs to, and one that was set around it. */

import { AsyncLocalStorage } from "node:async_hooks";
import type { Enqueued, JobRequest } from "./job.ts";

/** How a job that runs somewhere without a database enqueues others: through its worker. */
export interface Door {
  enqueue(jobs: readonly JobRequest[]): Promise<readonly Enqueued[]>;
}

export interface Current {
  readonly tenantId: string;
  readonly door: Door | null;
}

export const CURRENT = new AsyncLocalStorage<Current>();
export const AMBIENT = new AsyncLocalStorage<string>();
