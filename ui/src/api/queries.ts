/**
 * The queries of pages, by name. Query keys start with the kind of resource, so that events of the
 * live stream can refresh them.
 */

import {
  infiniteQueryOptions,
  type Query,
  QueryCache,
  QueryClient,
  queryOptions,
} from "@tanstack/react-query";
import { call, Problem } from "@/api/client";
import { type Range, startOfRange } from "@/charts/ranges";
import { routerBase } from "@/config";
import type { JobFilter } from "@/jobs/filter";
import { toQuery } from "@/jobs/filter";
import { status } from "@/live/live";

export const client = new QueryClient({
  queryCache: new QueryCache({ onError: askForKey }),
  defaultOptions: {
    queries: {
      // The live stream refreshes queries, and paused pages must not refresh.
      refetchOnWindowFocus: false,
      refetchOnReconnect: false,
      staleTime: 5_000,
      retry: (count, error) =>
        count < 2 && error instanceof Problem && (error.status === 0 || error.status >= 500),
    },
  },
});

/** The session has expired: show the sign-in page, which returns to this page. */
function askForKey(error: Error, query: Query<unknown, unknown>): void {
  if (!(error instanceof Problem) || error.status !== 401 || query.queryKey[0] === "session")
    return;
  const back = location.pathname.slice(routerBase.length) + location.search;
  location.assign(`${routerBase}/sign-in?${new URLSearchParams({ back })}`);
}

const MOST_PAGES = 25;

/** Fetch all pages of a list that is shown and sorted as a whole. */
async function fetchAllPages<T>(
  ask: (cursor: string | undefined) => Promise<{ items: T[]; next: string | null }>,
): Promise<{ items: T[] }> {
  const items: T[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const page = await ask(cursor);
    items.push(...page.items);
    if (page.next === null) break;
    cursor = page.next;
  }
  return { items };
}

export const session = () =>
  queryOptions({
    queryKey: ["session"],
    queryFn: () => call("get", "/api/v1/session"),
    staleTime: Number.POSITIVE_INFINITY,
    retry: false,
  });

export const summary = (windowS: number) =>
  queryOptions({
    queryKey: ["summary", windowS],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/summary", { query: { window_s: windowS }, signal }),
  });

export const jobs = (filter: JobFilter, limit = 50) =>
  queryOptions({
    queryKey: ["jobs", filter, limit],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/jobs", { query: { ...toQuery(filter), limit }, signal }),
  });

export const job = (id: string) =>
  queryOptions({
    queryKey: ["job", id],
    queryFn: ({ signal }) => call("get", "/api/v1/jobs/{job_id}", { path: { job_id: id }, signal }),
  });

export const explanation = (id: string) =>
  queryOptions({
    queryKey: ["explain", id],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/jobs/{job_id}/explain", { path: { job_id: id }, signal }),
  });

export const failures = () =>
  queryOptions({
    queryKey: ["failures"],
    queryFn: ({ signal }) =>
      fetchAllPages((cursor) =>
        call("get", "/api/v1/failures", { query: { limit: 200, cursor }, signal }),
      ),
  });

export const definitions = () =>
  queryOptions({
    queryKey: ["definitions"],
    queryFn: async ({ signal }) => {
      const all = await fetchAllPages((cursor) =>
        call("get", "/api/v1/definitions", { query: { limit: 200, cursor }, signal }),
      );
      return { items: all.items.filter((each) => !each.key.endsWith(":hooks")) };
    },
  });

export const definition = (key: string, version?: number) =>
  queryOptions({
    queryKey: ["definition", key, version ?? null],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/definitions/{key}", { path: { key }, query: { version }, signal }),
  });

export const queues = () =>
  queryOptions({
    queryKey: ["queues"],
    queryFn: ({ signal }) => call("get", "/api/v1/queues", { signal }),
  });

export const holders = (queue: string) =>
  queryOptions({
    queryKey: ["queues", "holders", queue],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/queues/{queue}/holders", {
        path: { queue },
        query: { limit: 200 },
        signal,
      }),
  });

export const operations = (limit = 50) =>
  queryOptions({
    queryKey: ["operations", limit],
    queryFn: ({ signal }) => call("get", "/api/v1/operations", { query: { limit }, signal }),
  });

export const operation = (id: string) =>
  queryOptions({
    queryKey: ["operation", id],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/operations/{operation_id}", { path: { operation_id: id }, signal }),
    refetchInterval: (query) => (isOver(query.state.data?.state) ? false : 500),
  });

export function isOver(state: string | undefined): boolean {
  return state === "done" || state === "failed" || state === "canceled";
}

export const keys = () =>
  queryOptions({
    queryKey: ["keys"],
    queryFn: ({ signal }) =>
      fetchAllPages((cursor) =>
        call("get", "/api/v1/keys", { query: { limit: 200, cursor }, signal }),
      ),
  });

export const audit = (filter: { actor?: string; action?: string; target?: string }) =>
  queryOptions({
    queryKey: ["audit", filter],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/audit", { query: { ...filter, limit: 100 }, signal }),
  });

export const ownTenant = () =>
  queryOptions({
    queryKey: ["own tenant"],
    queryFn: ({ signal }) => call("get", "/api/v1/session/tenant", { signal }),
  });

export const tenants = () =>
  queryOptions({
    queryKey: ["tenants"],
    queryFn: ({ signal }) => call("get", "/api/v1/tenants", { signal }),
  });

export const workers = () =>
  queryOptions({
    queryKey: ["workers"],
    queryFn: ({ signal }) => call("get", "/api/v1/workers", { signal }),
    refetchInterval: 5_000,
  });

interface StatisticsQuery {
  definition?: string | undefined;
  by?: "definition" | "queue";
  /** As a single step. */
  isWhole?: boolean;
}

/**
 * Also return the start of the range in seconds, because steps in which no job finished are left
 * out.
 */
export const statistics = (range: Range, { isWhole = false, ...which }: StatisticsQuery) =>
  queryOptions({
    queryKey: ["statistics", range.name, isWhole, which],
    queryFn: async ({ signal }) => {
      const since = startOfRange(range, Date.now());
      const query = {
        since: new Date(since * 1000).toISOString(),
        step_s: isWhole ? 0 : range.step_s,
        ...which,
      };
      return { since, ...(await call("get", "/api/v1/statistics", { query, signal })) };
    },
    refetchInterval: longInterval,
  });

export const usage = (lastS: number) =>
  queryOptions({
    queryKey: ["usage", lastS],
    queryFn: ({ signal }) => {
      const since = new Date(Date.now() - lastS * 1000).toISOString();
      return call("get", "/api/v1/usage", { query: { since }, signal });
    },
    refetchInterval: longInterval,
  });

export const database = () =>
  queryOptions({
    queryKey: ["database"],
    queryFn: ({ signal }) => call("get", "/api/v1/database", { signal }),
    refetchInterval: longInterval,
  });

export interface WorkflowQuery {
  name?: string | undefined;
  state?: "running" | "succeeded" | "failed" | "canceled" | undefined;
}

export const workflows = (filter: WorkflowQuery) =>
  infiniteQueryOptions({
    queryKey: ["workflows", filter],
    queryFn: ({ signal, pageParam }) =>
      call("get", "/api/v1/workflows", {
        query: { ...filter, limit: 50, cursor: pageParam },
        signal,
      }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

export const batches = (filter: WorkflowQuery) =>
  infiniteQueryOptions({
    queryKey: ["workflows", "batches", filter],
    queryFn: ({ signal, pageParam }) =>
      call("get", "/api/v1/batches", {
        query: { ...filter, limit: 50, cursor: pageParam },
        signal,
      }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
  });

export const workflow = (id: string, limit = 2_000) =>
  queryOptions({
    queryKey: ["workflow", id, limit],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/workflows/{workflow_id}", {
        path: { workflow_id: id },
        query: { limit },
        signal,
      }),
  });

export const batch = (id: string) =>
  queryOptions({
    queryKey: ["workflow", "batch", id],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/batches/{batch_id}", { path: { batch_id: id }, signal }),
  });

export const steps = (id: string) =>
  queryOptions({
    queryKey: ["job", id, "steps"],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/jobs/{job_id}/steps", { path: { job_id: id }, signal }),
  });

// The live stream has no events for the queries below, so they poll while the page is visible.
const SHORT_INTERVAL_MS = 3_000;
const LONG_INTERVAL_MS = 10_000;

/** The polling interval; false while updates are paused. */
function shortInterval(): number | false {
  return status.get() === "paused" ? false : SHORT_INTERVAL_MS;
}

function longInterval(): number | false {
  return status.get() === "paused" ? false : LONG_INTERVAL_MS;
}

/** Stop polling when the user has loaded older pages. */
function pagedInterval(pages: unknown[] | undefined): number | false {
  return (pages?.length ?? 0) > 1 ? false : shortInterval();
}

export const triggers = () =>
  queryOptions({
    queryKey: ["triggers"],
    queryFn: ({ signal }) => call("get", "/api/v1/triggers", { query: { limit: 200 }, signal }),
    refetchInterval: shortInterval,
  });

export const trigger = (id: string) =>
  queryOptions({
    queryKey: ["trigger", id],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/triggers/{trigger_id}", { path: { trigger_id: id }, signal }),
    refetchInterval: shortInterval,
  });

export const firings = (id: string, limit = 50) =>
  queryOptions({
    queryKey: ["firings", id, limit],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/triggers/{trigger_id}/firings", {
        path: { trigger_id: id },
        query: { limit },
        signal,
      }),
    refetchInterval: shortInterval,
  });

export const reactions = (id: string, limit = 50) =>
  queryOptions({
    queryKey: ["reactions", id, limit],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/triggers/{trigger_id}/deliveries", {
        path: { trigger_id: id },
        query: { limit },
        signal,
      }),
    refetchInterval: shortInterval,
  });

/** The outcome of a trigger's last firing; fetched again only after the trigger has fired. */
export const lastOutcome = (id: string, type: "schedule" | "event", firedAt: string | null) =>
  queryOptions({
    queryKey: ["last outcome", id, firedAt],
    queryFn: async ({ signal }): Promise<string | null> => {
      const options = { path: { trigger_id: id }, query: { limit: 1 }, signal };
      const page =
        type === "schedule"
          ? await call("get", "/api/v1/triggers/{trigger_id}/firings", options)
          : await call("get", "/api/v1/triggers/{trigger_id}/deliveries", options);
      return page.items[0]?.outcome ?? null;
    },
    enabled: firedAt !== null,
    staleTime: Number.POSITIVE_INFINITY,
  });

export const nextRuns = (cron: string, timezone: string) =>
  queryOptions({
    queryKey: ["next runs", cron, timezone],
    queryFn: ({ signal }) =>
      call("post", "/api/v1/triggers/preview", { body: { cron, timezone, count: 5 }, signal }),
    staleTime: 30_000,
    retry: false,
  });

export const nextRunsOf = (trigger_id: string) =>
  queryOptions({
    queryKey: ["trigger", trigger_id, "next"],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/triggers/{trigger_id}/next", { path: { trigger_id }, signal }),
    staleTime: 30_000,
  });

export const events = (name?: string) =>
  infiniteQueryOptions({
    queryKey: ["events", name ?? null],
    queryFn: ({ signal, pageParam }) =>
      call("get", "/api/v1/events", { query: { name, limit: 50, cursor: pageParam }, signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: (query) => pagedInterval(query.state.data?.pages),
  });

export const event = (id: string) =>
  queryOptions({
    queryKey: ["event", id],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/events/{event_id}", { path: { event_id: id }, signal }),
    refetchInterval: (query) => (query.state.data?.is_pending ? 500 : shortInterval()),
  });

export const webhooks = () =>
  queryOptions({
    queryKey: ["webhooks"],
    queryFn: ({ signal }) => call("get", "/api/v1/webhooks", { query: { limit: 200 }, signal }),
    refetchInterval: shortInterval,
  });

export const webhook = (id: string) =>
  queryOptions({
    queryKey: ["webhook", id],
    queryFn: ({ signal }) =>
      call("get", "/api/v1/webhooks/{endpoint_id}", { path: { endpoint_id: id }, signal }),
    refetchInterval: shortInterval,
  });

export const deliveries = (id: string, state?: "pending" | "delivered" | "failed") =>
  infiniteQueryOptions({
    queryKey: ["deliveries", id, state ?? null],
    queryFn: ({ signal, pageParam }) =>
      call("get", "/api/v1/webhooks/{endpoint_id}/deliveries", {
        path: { endpoint_id: id },
        query: { state, limit: 50, cursor: pageParam },
        signal,
      }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: (query) => pagedInterval(query.state.data?.pages),
  });

export const connectors = () =>
  queryOptions({
    queryKey: ["connectors"],
    queryFn: ({ signal }) => call("get", "/api/v1/connectors", { query: { limit: 200 }, signal }),
  });
