/**
 * Chooses the tenant of a job: the named one, the ambient one, the running job's, or the app's
 * default.
 */

import { TenantRequired } from "../errors.ts";
import { AMBIENT_TENANT, CURRENT_JOB } from "./job-scope.ts";

const REMEMBERED_MS = 60_000;
const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/i;

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
