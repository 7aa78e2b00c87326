/**
 * Where a call of the SDK comes from: the ambient tenant set by `jf.tenant(…)`, and the running job
 * whose code calls. The tenant of a new job is the named one, the ambient one, the running job's, or
 * the app's default.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { TenantRequired } from "../errors.ts";
import type { ClaimedJob, Enqueued, JobRequest } from "../types/jobs.ts";

const REMEMBERED_MS = 60_000;
const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

/** Enqueues jobs through the worker, from a job's process that has no database. */
export interface JobProcessChannel {
  enqueue(jobs: readonly JobRequest[]): Promise<readonly Enqueued[]>;
}

/** The fields that a job's new jobs inherit. */
export type InheritedFields = Pick<ClaimedJob, "correlation_id" | "traceparent">;

export interface CurrentJob {
  readonly tenantId: string;
  readonly channel: JobProcessChannel | null;
  /** Undefined in a job's process, where the worker adds the fields. */
  readonly origin?: InheritedFields;
}

export const CURRENT_JOB = new AsyncLocalStorage<CurrentJob>();
export const AMBIENT_TENANT = new AsyncLocalStorage<string>();

/** Return the jobs with the running job's correlation ID and trace, unless they set their own. */
export function inheritFields(origin: InheritedFields, jobs: readonly JobRequest[]): JobRequest[] {
  return jobs.map((request) => ({
    ...request,
    correlation_id: request.correlation_id ?? origin.correlation_id ?? undefined,
    traceparent: request.traceparent ?? origin.traceparent ?? undefined,
  }));
}

export function chooseTenant(named: string | undefined, byDefault: string | undefined): string {
  const tenant =
    named ?? AMBIENT_TENANT.getStore() ?? CURRENT_JOB.getStore()?.tenantId ?? byDefault ?? "";
  if (tenant !== "") return tenant;
  throw new TenantRequired(
    "A tenant is required: use using({ tenant }), wrap the call in jf.tenant(…), or set it" +
      " for the app with new JobForge({ tenant }) or JOBFORGE_TENANT",
  );
}

export function isUuid(tenant: string): boolean {
  return UUID.test(tenant);
}

/** Tenant IDs by slug, cached for a minute. */
export class TenantIdCache {
  readonly #known = new Map<string, { readonly id: string; readonly until: number }>();

  get(slug: string): string | undefined {
    const known = this.#known.get(slug);
    return known !== undefined && performance.now() < known.until ? known.id : undefined;
  }

  put(slug: string, id: string): string {
    this.#known.set(slug, { id, until: performance.now() + REMEMBERED_MS });
    return id;
  }
}
