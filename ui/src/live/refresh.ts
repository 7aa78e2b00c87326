/**
 * Maps events of the live stream to the queries that they invalidate. Queries are fetched at most
 * every two seconds while the page is visible.
 */

import { client } from "@/api/queries";
import { onBatch } from "@/live/live";

const PACE_MS = 2_000;
const BY_COUNTS = new Set([
  "summary",
  "queues",
  "failures",
  "coming",
  "operations",
  "explain",
  "workflows",
  "workflow",
  "triggers",
  "trigger",
  "firings",
  "reactions",
  "events",
  "event",
  "webhooks",
  "webhook",
  "deliveries",
]);

let refreshedAt = 0;
let timer: ReturnType<typeof setTimeout> | null = null;

export function startRefreshing(): void {
  onBatch((batch) => {
    refreshJobs();
    if (!batch.counted || timer !== null) return;
    timer = setTimeout(refreshCounts, Math.max(0, PACE_MS - (Date.now() - refreshedAt)));
  });
}

/** Also refresh the open job, because the start of a run has no event. */
function refreshJobs(): void {
  void client.invalidateQueries(
    { predicate: ({ queryKey: [name] }) => name === "job" },
    { cancelRefetch: false },
  );
}

function refreshCounts(): void {
  timer = null;
  refreshedAt = Date.now();
  void client.invalidateQueries(
    { predicate: ({ queryKey: [name] }) => BY_COUNTS.has(String(name)) },
    { cancelRefetch: false },
  );
}
