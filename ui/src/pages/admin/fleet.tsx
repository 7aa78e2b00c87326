/** The whole installation at a glance: is work done, by whom, for whom. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { queues, tenants, workers } from "@/api/queries";
import { tenantHref } from "@/config";
import { short } from "@/jobs/counts";
import { Activity } from "@/live/activity";
import { useLive } from "@/live/live";
import { Failure, Skeleton } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { duration, useNow } from "@/parts/time";

export function Page() {
  const queueQuery = useQuery({ ...queues(), refetchInterval: 3_000 });
  const workerQuery = useQuery(workers());
  const now = useNow();
  if (queueQuery.isPending || workerQuery.isPending) return <Skeleton rows={8} />;
  if (queueQuery.isError)
    return <Failure error={queueQuery.error} onRetry={() => void queueQuery.refetch()} />;
  if (workerQuery.isError)
    return <Failure error={workerQuery.error} onRetry={() => void workerQuery.refetch()} />;
  const rows = queueQuery.data.items;
  const live = workerQuery.data.items.filter((each) => each.state === "live");
  const stale = workerQuery.data.items.filter((each) => each.state === "stale");
  const slots = live.reduce((sum, each) => sum + each.slots, 0);
  const running = rows.reduce((sum, each) => sum + each.running, 0);
  const waits = rows.flatMap((each) =>
    each.oldest_queued_at ? [now - new Date(each.oldest_queued_at).getTime()] : [],
  );
  const oldest = waits.length > 0 ? Math.max(...waits) : null;
  const figures: [string, string, string, boolean][] = [
    [
      "Oldest wait",
      oldest === null ? "none" : duration(oldest),
      "/admin/queues",
      oldest !== null && oldest > 60_000,
    ],
    ["Queued", short(rows.reduce((sum, each) => sum + each.queued, 0)), "/admin/queues", false],
    ["Running", short(running), "/admin/queues", false],
    [
      "Slots in use",
      slots === 0 ? "no slots" : `${Math.round((100 * running) / slots)} %`,
      "/admin/workers",
      slots === 0,
    ],
    ["Live workers", String(live.length), "/admin/workers", live.length === 0],
    ["Stale workers", String(stale.length), "/admin/workers", stale.length > 0],
  ];
  return (
    <Frame title="Fleet" lead="All tenants together.">
      <dl className="grid grid-cols-2 gap-px overflow-hidden rounded-lg border border-line bg-line sm:grid-cols-3 xl:grid-cols-6">
        {figures.map(([title, value, to, isBad]) => (
          <div
            key={title}
            className="relative flex flex-col-reverse justify-end bg-surface px-4 py-3 hover:bg-hover"
          >
            <dt className="text-muted">
              <Link to={to} className="after:absolute after:inset-0">
                {title}
              </Link>
            </dt>
            <dd
              className={`num font-semibold text-2xl leading-8 tracking-tight ${isBad ? "text-bad" : ""}`}
            >
              {value}
            </dd>
          </div>
        ))}
      </dl>
      <Panel title="Attempts that ended, as you watch">
        <Activity />
      </Panel>
      <Shares />
    </Frame>
  );
}

/** What each tenant got of the workers since the page was opened. */
function Shares() {
  const { data } = useQuery(tenants());
  const [got, setGot] = useState<Map<string, number>>(new Map());
  useLive((batch) => {
    const ended = batch.happenings.filter((each) => each.kind === "attempt");
    if (ended.length === 0) return;
    setGot((old) => {
      const next = new Map(old);
      for (const each of ended) next.set(each.tenant_id, (next.get(each.tenant_id) ?? 0) + 1);
      return next;
    });
  });
  const known = data?.items ?? [];
  const whole = [...got.values()].reduce((sum, each) => sum + each, 0);
  const weights = known.reduce((sum, each) => sum + each.weight, 0);
  const shown = known
    .map((each) => ({ ...each, got: got.get(each.id) ?? 0 }))
    .sort((one, other) => other.got - one.got)
    .slice(0, 10);
  return (
    <Panel title="Who gets the workers">
      {shown.length === 0 ? (
        <p className="px-4 py-3 text-muted">No tenants yet. jobforge tenants create makes one.</p>
      ) : (
        <ul className="py-1.5">
          {shown.map((row) => (
            <li key={row.id} className="flex h-8 items-center gap-3 px-4">
              <a
                href={tenantHref(row.slug ?? row.id)}
                className="w-32 truncate font-medium hover:text-accent"
              >
                {row.name ?? row.slug ?? row.id}
              </a>
              <span
                className="relative h-2 flex-1 overflow-hidden rounded-full bg-raised"
                role="img"
                aria-label={`${row.got} attempts`}
              >
                <span
                  className="absolute inset-y-0 left-0 bg-accent"
                  style={{ width: `${whole ? (row.got / whole) * 100 : 0}%` }}
                />
              </span>
              <span
                className="num w-44 text-right text-muted text-xs"
                title="of the attempts that ended since this page was opened; and its share by weight when all want more"
              >
                {whole ? Math.round((row.got / whole) * 100) : 0} % got ·{" "}
                {Math.round((row.weight / weights) * 100)} % by weight
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
