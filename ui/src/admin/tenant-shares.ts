/** Computes the shares of worker time that tenants requested, received, and are entitled to. */

import type { TenantBacklog, TenantInfo, Usage } from "@/api/schema";

export interface Share {
  id: string | null; // null: all other tenants
  name: string;
  slug: string | null;
  /** Share of all work that finished or waits. */
  asked: number;
  /** Share of all work that finished. */
  got: number;
  /** Share by weight among the tenants that requested work. */
  due: number;
  jobs: number;
  waiting: number;
  isNoisy: boolean;
}

const NOISY = 1.5; // times the tenant's share by weight

export function sharesOf(tenants: TenantInfo[], used: Usage[], waiting: TenantBacklog[]): Share[] {
  const known = new Map(tenants.map((each) => [each.id, each]));
  const done = new Map(used.map((each) => [each.tenant_id as string | null, each.attempts]));
  const queued = new Map(waiting.map((each) => [each.tenant_id, each.queued]));
  const ids = [...new Set([...done.keys(), ...queued.keys()])];
  const weightOf = (id: string | null) => (id === null ? 1 : (known.get(id)?.weight ?? 1));
  const weights = sum(ids.map(weightOf));
  const allDone = sum([...done.values()]);
  const all = allDone + sum([...queued.values()]);
  const shares = ids.map((id) => {
    const info = id === null ? undefined : known.get(id);
    const jobs = done.get(id) ?? 0;
    const waits = queued.get(id) ?? 0;
    return {
      id,
      name: id === null ? "all other tenants" : (info?.name ?? info?.slug ?? id),
      slug: info?.slug ?? id,
      asked: ratio(jobs + waits, all),
      got: ratio(jobs, allDone),
      due: ratio(weightOf(id), weights),
      jobs,
      waiting: waits,
      isNoisy: false,
    };
  });
  return shares
    .map((each) => ({ ...each, isNoisy: isNoisy(each, shares) }))
    .sort((one, other) => other.asked - one.asked);
}

/** Whether the tenant requests far more than its share while other tenants wait. */
function isNoisy(share: Share, all: Share[]): boolean {
  return (
    share.id !== null &&
    share.waiting > 0 &&
    share.asked > NOISY * share.due &&
    all.some((other) => other !== share && other.waiting > 0)
  );
}

function ratio(part: number, whole: number): number {
  return whole === 0 ? 0 : part / whole;
}

function sum(numbers: number[]): number {
  return numbers.reduce((all, each) => all + each, 0);
}
