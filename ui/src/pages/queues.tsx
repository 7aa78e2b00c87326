/** The queues: running and waiting jobs, oldest wait, and limits. */

import { useQuery } from "@tanstack/react-query";
import { Link, useSearch } from "@tanstack/react-router";
import { Pause, Play, SlidersHorizontal } from "lucide-react";
import { useState } from "react";
import { Holders } from "@/admin/slot-holders";
import { call } from "@/api/client";
import { client, queues, statistics } from "@/api/queries";
import type { QueueInfo } from "@/api/schema";
import { type Range, steps } from "@/charts/ranges";
import { tenant } from "@/config";
import { LimitDialog } from "@/jobs/limit-dialog";
import { Limits } from "@/jobs/limits";
import { short } from "@/jobs/short-count";
import { Button } from "@/parts/button";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { plural } from "@/parts/plural";
import { Sparkline } from "@/parts/sparkline";
import { type Column, Count, Table } from "@/parts/table";
import { Span } from "@/parts/time";
import { toastError } from "@/parts/toasts";
import { useSession } from "@/session";

const HOUR: Range = { name: "1h by 2 min", label: "1 h", lasts_s: 3_600, step_s: 120 };

export function Page() {
  const { may, isSuper } = useSession();
  const query = useQuery(queues());
  const [limited, setLimited] = useState<QueueInfo | null>(null);
  const canOperate = may("queues", "write");
  const isWhole = isSuper && tenant === null;
  const { queue: shown } = useSearch({ strict: false }) as { queue?: string };
  const held = isWhole ? query.data?.items.find((row) => row.name === shown) : undefined;
  const ended = useEnded();
  const columns: Column<QueueInfo>[] = [
    {
      title: "Queue",
      isMain: true,
      by: (row) => row.name,
      cell: (row) => <Name row={row} isWhole={isWhole} />,
    },
    {
      title: "Running",
      isWide: canOperate,
      align: "right",
      by: (row) => row.running,
      cell: (row) => <Gauge row={row} isWhole={isWhole} />,
    },
    {
      title: "Attempts in 1 h",
      isWide: true,
      align: "right",
      by: (row) => sum(ended.get(row.name) ?? []),
      cell: (row) => <EndedSparkline values={ended.get(row.name)} />,
    },
    {
      title: "Queued",
      align: "right",
      by: (row) => row.queued,
      cell: (row) => <Count of={row.queued} text={short(row.queued)} />,
    },
    {
      title: "Oldest wait",
      align: "right",
      by: (row) => row.oldest_queued_at && -new Date(row.oldest_queued_at).getTime(),
      cell: (row) => <Span from={row.oldest_queued_at} />,
    },
    {
      title: "Scheduled",
      isWide: true,
      align: "right",
      by: (row) => row.scheduled,
      cell: (row) => <Count of={row.scheduled} text={short(row.scheduled)} />,
    },
    { title: "Limits", isWide: true, cell: (row) => <Limits row={row} /> },
  ];
  if (canOperate) {
    columns.push({
      title: "Actions",
      cell: (row) => (
        <span className="flex justify-end gap-1">
          <Button
            look="quiet"
            icon={SlidersHorizontal}
            label={`Limits of ${row.name}`}
            onClick={() => setLimited(row)}
          />
          <Button
            look="quiet"
            icon={row.paused_at ? Play : Pause}
            label={`${row.paused_at ? "Resume" : "Pause"} ${row.name}`}
            onClick={() => void toggle(row)}
          />
        </span>
      ),
    });
  }
  return (
    <Frame
      title={isWhole ? "Queues & limits" : "Queues"}
      lead={
        isWhole
          ? "Jobs of all tenants."
          : "Jobs of this tenant. Limits and pauses apply to all tenants."
      }
    >
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.items.length === 0 ? (
        <Empty title="No queues yet" code={'@jf.job(queue="mail")'}>
          A queue appears when a definition or a job uses it:
        </Empty>
      ) : (
        <Panel>
          <Table
            label="Queues"
            columns={columns}
            rows={query.data.items}
            idOf={(row) => row.name}
          />
        </Panel>
      )}
      {held && <Holders queue={held} />}
      {limited && (
        <LimitDialog
          title={`Limits of ${limited.name}`}
          limits={limited}
          onClose={() => setLimited(null)}
          save={async (limits) => {
            await call("patch", "/api/v1/queues/{queue}", {
              path: { queue: limited.name },
              body: limits,
            });
            await client.invalidateQueries({ queryKey: ["queues"] });
          }}
        />
      )}
    </Frame>
  );
}

/** The number of attempts that ended in each step of the last hour, by queue. */
function useEnded(): Map<string | null, number[]> {
  const { may } = useSession();
  const { data } = useQuery({
    ...statistics(HOUR, { by: "queue" }),
    enabled: may("statistics", "read"),
  });
  if (!data) return new Map();
  const names = new Set(data.items.map((each) => each.queue));
  return new Map(
    [...names].map((name) => {
      const own = data.items.filter((each) => each.queue === name);
      return [name, steps(HOUR, data.since, own).rows.map((row) => row?.attempts ?? 0)];
    }),
  );
}

function sum(values: number[]): number {
  return values.reduce((all, each) => all + each, 0);
}

function EndedSparkline({ values }: { values: number[] | undefined }) {
  const all = sum(values ?? []);
  return (
    <span className="flex items-center justify-end gap-3">
      {values && (
        <Sparkline
          values={values}
          label={`${plural(all, "attempt")} in the last hour`}
          color="text-ok"
        />
      )}
      <span className="min-w-10">
        <Count of={all} text={short(all)} />
      </span>
    </span>
  );
}

async function toggle(row: QueueInfo): Promise<void> {
  const path = { queue: row.name };
  try {
    if (row.paused_at) await call("post", "/api/v1/queues/{queue}/resume", { path });
    else await call("post", "/api/v1/queues/{queue}/pause", { path });
    await client.invalidateQueries({ queryKey: ["queues"] });
  } catch (error) {
    toastError(error);
  }
}

function Name({ row, isWhole }: { row: QueueInfo; isWhole: boolean }) {
  return (
    <span className="flex items-center gap-2">
      <Link
        to={isWhole ? "." : "/jobs"}
        search={{ queue: row.name }}
        className="truncate font-medium hover:text-accent"
      >
        {row.name}
      </Link>
      {row.paused_at && (
        <span className="inline-flex items-center gap-1 rounded bg-warn-soft px-1.5 font-medium text-warn text-xs">
          <Pause size={11} aria-hidden /> Paused
        </span>
      )}
    </span>
  );
}

/**
 * Running jobs, as a share of the limit if there is one. A click lists the jobs.
 */
function Gauge({ row, isWhole }: { row: QueueInfo; isWhole: boolean }) {
  const share = row.max_running ? Math.min(1, row.running / row.max_running) : null;
  return (
    <span className="flex items-center justify-end gap-2">
      <Link
        to={isWhole ? "." : "/jobs"}
        search={isWhole ? { queue: row.name } : { queue: row.name, state: "running" }}
        className="num hover:text-accent"
        title="View running jobs"
      >
        <Count of={row.running} />
        {row.max_running !== null && <span className="text-faint"> / {row.max_running}</span>}
      </Link>
      {share !== null && (
        <span className="h-1.5 w-16 overflow-hidden rounded-full bg-raised">
          <span
            className={`block h-full ${share >= 1 ? "bg-warn" : "bg-run"}`}
            style={{ width: `${share * 100}%` }}
          />
        </span>
      )}
    </span>
  );
}
