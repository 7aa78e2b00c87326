/** An overview of the whole installation: work done, workers, and tenants. */

import { useQuery } from "@tanstack/react-query";
import { Fairness } from "@/admin/fairness";
import { queues, statistics, workers } from "@/api/queries";
import type { QueueInfo } from "@/api/schema";
import { ByDefinition } from "@/charts/by-definition";
import { History } from "@/charts/history";
import { failuresOf, rangeOf } from "@/charts/ranges";
import { short } from "@/jobs/short-count";
import { Failure, Skeleton } from "@/parts/feedback";
import { Figure, Figures, Headline } from "@/parts/figures";
import { Page as Frame } from "@/parts/page";
import { duration, useNow } from "@/parts/time";

const LONG_MS = 60_000;
const BAD_SHARE = 5;

export function Page() {
  const queueQuery = useQuery({ ...queues(), refetchInterval: 3_000 });
  const workerQuery = useQuery(workers());
  if (queueQuery.isPending || workerQuery.isPending) return <Skeleton rows={8} />;
  if (queueQuery.isError)
    return <Failure error={queueQuery.error} onRetry={() => void queueQuery.refetch()} />;
  if (workerQuery.isError)
    return <Failure error={workerQuery.error} onRetry={() => void workerQuery.refetch()} />;
  const rows = queueQuery.data.items;
  const live = workerQuery.data.items.filter((each) => each.state === "live");
  const stale = workerQuery.data.items.filter((each) => each.state === "stale").length;
  const slots = live.reduce((sum, each) => sum + each.slots, 0);
  const running = rows.reduce((sum, each) => sum + each.running, 0);
  return (
    <Frame title="Fleet" lead="Jobs and workers of all tenants.">
      <Figures>
        <OldestWait rows={rows} />
        <Figure
          title="Queued"
          value={short(rows.reduce((sum, each) => sum + each.queued, 0))}
          to="/admin/queues"
        />
        <Figure title="Running" value={short(running)} to="/admin/queues" />
        <Figure
          title="Slots in use"
          value={slots === 0 ? "no slots" : `${Math.round((100 * running) / slots)}%`}
          to="/admin/workers"
          isBad={slots === 0}
        />
        <ErrorRate />
        <Figure
          title="Live workers"
          value={String(live.length)}
          to="/admin/workers"
          isBad={live.length === 0}
        />
        <Figure title="Stale workers" value={String(stale)} to="/admin/workers" isBad={stale > 0} />
      </Figures>
      <History />
      <Fairness />
      <ByDefinition isWhole />
    </Frame>
  );
}

function ErrorRate() {
  const { data } = useQuery(statistics(rangeOf("1h"), { isWhole: true }));
  const hour = data?.items[0];
  const share = hour ? (100 * failuresOf(hour)) / hour.attempts : 0;
  return (
    <Figure
      title="Failed in 1 h"
      value={data ? `${share > 0 && share < 10 ? share.toFixed(1) : Math.round(share)}%` : "–"}
      to="."
      search={{ range: "1h" }}
      isBad={share >= BAD_SHARE}
    />
  );
}

function OldestWait({ rows }: { rows: QueueInfo[] }) {
  const now = useNow();
  const [oldest] = rows
    .flatMap(({ oldest_queued_at: at, name }) => (at ? [{ at, name }] : []))
    .sort((one, other) => one.at.localeCompare(other.at));
  const waited = oldest ? now - new Date(oldest.at).getTime() : 0;
  return (
    <Headline
      title={oldest ? `Oldest wait · queue ${oldest.name}` : "No waiting jobs"}
      value={oldest ? duration(waited) : "0 s"}
      to="/admin/queues"
      isBad={waited > LONG_MS}
    />
  );
}
