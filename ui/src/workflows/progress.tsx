/** The progress of a workflow or batch, by the states of its jobs. */

import { useQuery } from "@tanstack/react-query";
import { batch, workflow } from "@/api/queries";
import type { WorkflowInfo } from "@/api/schema";
import { short } from "@/jobs/short-count";
import { LOOKS } from "@/jobs/states";

export type Counts = Record<string, number>;

export const WORKFLOW_ENDED = new Set(["succeeded", "failed", "canceled"]);
const FILLS: [string, string][] = [
  ["succeeded", "bg-ok"],
  ["dead", "bg-bad"],
  ["canceled", "bg-strong"],
  ["running", "bg-run"],
];

const ORDER = [
  "succeeded",
  "dead",
  "canceled",
  "running",
  "canceling",
  "queued",
  "scheduled",
  "blocked",
];

export function countEnded(counts: Counts): number {
  return (counts.succeeded ?? 0) + (counts.dead ?? 0) + (counts.canceled ?? 0);
}

function placeOf(state: string): number {
  return ORDER.indexOf(state);
}

/** Format counts as "12 succeeded, 1 dead". */
export function countsInWords(counts: Counts): string {
  return Object.entries(counts)
    .filter(([, count]) => count > 0)
    .sort(([one], [other]) => placeOf(one) - placeOf(other))
    .map(([state, count]) => `${short(count)} ${LOOKS[state]?.label.toLowerCase() ?? state}`)
    .join(", ");
}

export function Segments({ counts, size }: { counts: Counts; size: number }) {
  return (
    <div
      role="img"
      aria-label={countsInWords(counts) || "no jobs yet"}
      title={countsInWords(counts)}
      className="flex h-1.5 overflow-hidden rounded-full bg-raised"
    >
      {FILLS.map(([state, fill]) => (
        <div
          key={state}
          className={`h-full ${fill}`}
          style={{ width: `${(100 * (counts[state] ?? 0)) / Math.max(1, size)}%` }}
        />
      ))}
    </div>
  );
}

/** For lists, which lack the counts of running workflows: each of these is fetched separately. */
export function Progress({ row, isBatch }: { row: WorkflowInfo; isBatch: boolean }) {
  const isAsked = row.counts === null;
  const ofWorkflow = useQuery({ ...workflow(row.id, 1), enabled: isAsked && !isBatch });
  const ofBatch = useQuery({ ...batch(row.id), enabled: isAsked && isBatch });
  const counts = row.counts ?? ofWorkflow.data?.workflow.counts ?? ofBatch.data?.counts ?? {};
  const size = Math.max(row.size, sum(counts));
  return (
    <span className="flex items-center gap-2">
      <span className="w-16 md:w-28">
        <Segments counts={counts} size={size} />
      </span>
      <span className="num text-muted text-xs">
        {short(countEnded(counts))} of {short(size)}
      </span>
    </span>
  );
}

export function sum(counts: Counts): number {
  return Object.values(counts).reduce((total, count) => total + count, 0);
}
