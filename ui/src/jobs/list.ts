/**
 * The rows of the job list: pages load while the user scrolls, and visible rows are kept up to
 * date.
 *
 * Visible rows are fetched again after an event. While the pointer is over the list, or the list is
 * scrolled down, rows do not move: they change in place, and new rows are only counted. IDs are in
 * order of creation.
 */

import { type InfiniteData, useInfiniteQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";
import { call } from "@/api/client";
import type { JobListing, PageJobListing } from "@/api/schema";
import { type JobFilter, toQuery } from "@/jobs/filter";
import { useLive } from "@/live/live";

const PAGE = 100;
const PACE_MS = 1_000;

export type JobOrder = "newest" | "oldest";

type Pages = InfiniteData<PageJobListing, string | undefined>;

export function useJobList(filter: JobFilter, order: JobOrder) {
  const client = useQueryClient();
  const queryKey = ["job-list", filter, order];
  const query = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam, signal }) => fetchPage(filter, order, pageParam, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
    structuralSharing: false, // comparing fifty thousand rows takes longer than drawing them
  });
  const pages = query.data?.pages;
  const rows = useMemo(() => pages?.flatMap((page) => page.items) ?? [], [pages]);
  const seen = useRef({ first: 0, last: 0, isHeld: false });
  const [newer, setNewer] = useState(0);
  const [gone, setGone] = useState<Set<string>>(new Set());
  const running = useRef({ busy: false, again: false, at: 0 });

  async function refresh() {
    const turn = running.current;
    if (turn.busy) {
      turn.again = true;
      return;
    }
    turn.busy = true;
    try {
      await refreshSeen();
    } catch {
      // The next event retries. The live indicator shows that the server is unreachable.
    }
    turn.busy = false;
    turn.at = Date.now();
    if (turn.again) {
      turn.again = false;
      setTimeout(refresh, PACE_MS);
    }
  }

  async function refreshSeen() {
    const pages = client.getQueryData<Pages>(queryKey);
    if (!pages) return;
    for (const index of pagesSeen(pages, seen.current.first, seen.current.last)) {
      const fresh = await fetchPage(filter, order, pages.pageParams[index]);
      const current = client.getQueryData<Pages>(queryKey);
      const old = current?.pages[index];
      if (!current || !old) return;
      const isHeld = seen.current.isHeld || (index === 0 && seen.current.first > 0);
      if (!isHeld && index === 0 && hasNoOverlap(old, fresh)) {
        client.setQueryData<Pages>(queryKey, { pages: [fresh], pageParams: [undefined] });
        setNewer(0);
        return;
      }
      const known = new Set(old.items.map((each) => each.id));
      if (index === 0 && order === "newest")
        setNewer(isHeld ? fresh.items.filter((each) => !known.has(each.id)).length : 0);
      const merged = isHeld ? patchRows(old, fresh) : replaceRows(old, fresh, order);
      setGone(isHeld ? missing(old, fresh, order) : new Set());
      client.setQueryData<Pages>(queryKey, {
        ...current,
        pages: current.pages.map((page, at) => (at === index ? merged : page)),
      });
    }
  }

  useLive(() => {
    const wait = PACE_MS - (Date.now() - running.current.at);
    if (wait > 0 && !running.current.busy) setTimeout(refresh, wait);
    else void refresh();
  });

  return {
    ...query,
    rows,
    newer,
    gone,
    /** Set the visible rows, and whether rows must keep their position. */
    look: (first: number, last: number) => {
      seen.current.first = first;
      seen.current.last = last;
    },
    hold: (isHeld: boolean) => {
      seen.current.isHeld = isHeld;
    },
    showNewer: () => {
      seen.current = { first: 0, last: 0, isHeld: false };
      void refresh();
    },
    refresh,
  };
}

function fetchPage(
  filter: JobFilter,
  order: JobOrder,
  cursor: string | undefined,
  signal?: AbortSignal,
) {
  return call("get", "/api/v1/jobs", {
    query: { ...toQuery(filter), order, limit: PAGE, cursor },
    signal,
  });
}

function pagesSeen(pages: Pages, first: number, last: number): number[] {
  const found: number[] = [];
  let start = 0;
  pages.pages.forEach((page, index) => {
    const end = start + page.items.length;
    if ((start <= last && end >= first) || (index === 0 && first === 0)) found.push(index);
    start = end;
  });
  return found.includes(0) ? found : [0, ...found];
}

/** Whether no row of the old page remains. */
function hasNoOverlap(old: PageJobListing, fresh: PageJobListing): boolean {
  const first = old.items[0]?.id;
  return (
    fresh.next !== null && first !== undefined && !fresh.items.some((each) => each.id === first)
  );
}

function replaceRows(old: PageJobListing, fresh: PageJobListing, order: JobOrder): PageJobListing {
  const last = fresh.items.at(-1)?.id;
  if (fresh.next === null || last === undefined) return fresh;
  const rest = old.items.filter((each) => isPastEnd(each.id, last, order));
  return rest.length === 0 ? fresh : { items: [...fresh.items, ...rest], next: old.next };
}

function isPastEnd(id: string, last: string, order: JobOrder): boolean {
  return order === "newest" ? id < last : id > last;
}

function patchRows(old: PageJobListing, fresh: PageJobListing): PageJobListing {
  const byId = new Map(fresh.items.map((each) => [each.id, each]));
  return { items: old.items.map((each): JobListing => byId.get(each.id) ?? each), next: old.next };
}

function missing(old: PageJobListing, fresh: PageJobListing, order: JobOrder): Set<string> {
  const last = fresh.next === null ? undefined : fresh.items.at(-1)?.id;
  const known = new Set(fresh.items.map((each) => each.id));
  const isCovered = (id: string) => last === undefined || !isPastEnd(id, last, order);
  return new Set(old.items.map((each) => each.id).filter((id) => isCovered(id) && !known.has(id)));
}
