/** Who asks for how much of the workers, and who gets it. */

import type { TenantBacklog, TenantInfo, Usage } from "@/api/schema";

export interface Share {
  id: string | null; // null: all others
  name: string;
  slug: string | null;
  /** Of everything that was done or waits. */
  asked: number;
  /** Of everything that was done. */
  got: number;
  /** By weight, among those who ask for anything. */
  due: number;
  jobs: number;
  waiting: number;
  isNoisy: boolean;
}

const NOISY = 1.5; // times what is due

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
      name: id === null ? "all others" : (info?.name ?? info?.slug ?? id),
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

/** It asks for far more than is due to it, and others wait. */
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
