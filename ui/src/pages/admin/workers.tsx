/** The workers, including those without recent heartbeats. */

import { useQuery } from "@tanstack/react-query";
import { CircleCheck, CircleStop, LogOut, OctagonX, TriangleAlert, Waves } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { client, workers } from "@/api/queries";
import type { WorkerInfo } from "@/api/schema";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { Id } from "@/parts/copy";
import { Empty, Failure, Notice, Skeleton } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { plural } from "@/parts/plural";
import { type Column, Table } from "@/parts/table";
import { Ago, duration } from "@/parts/time";
import { toast } from "@/parts/toasts";

const MOST_SKEW_S = 1;
const NONE = <span className="text-faint">–</span>;

const LOOKS: Record<string, { label: string; color: string; icon: typeof CircleCheck }> = {
  live: { label: "Live", color: "text-ok", icon: CircleCheck },
  draining: { label: "Draining", color: "text-plan", icon: Waves },
  stopping: { label: "Stopping", color: "text-warn", icon: LogOut },
  stale: { label: "Stale", color: "text-bad", icon: TriangleAlert },
  stopped: { label: "Stopped", color: "text-faint", icon: CircleStop },
};

export function Page() {
  const query = useQuery(workers());
  const [open, setOpen] = useState<{ verb: "drain" | "stop"; worker: WorkerInfo } | null>(null);
  const rows = query.data?.items ?? [];
  const stale = rows.filter((row) => row.state === "stale");
  const builds = buildsOf(rows);
  const columns: Column<WorkerInfo>[] = [
    { title: "State", by: (row) => row.state, cell: (row) => <WorkerState state={row.state} /> },
    {
      title: "Worker",
      isMain: true,
      by: (row) => row.host,
      cell: (row) => (
        <span className="flex min-w-0 flex-col">
          <span className="truncate font-medium">
            {row.host ?? "unknown host"}
            {row.pid !== null && (
              <span className="hidden text-faint md:inline"> · PID {row.pid}</span>
            )}
          </span>
          <span className="hidden truncate text-faint md:inline">
            <Id id={row.id} />
          </span>
        </span>
      ),
    },
    {
      title: "Slots",
      by: (row) => row.running / Math.max(1, row.slots),
      cell: (row) => <Slots row={row} />,
    },
    {
      title: "Queues",
      isWide: true,
      cell: (row) => (
        <span className="block max-w-32 truncate" title={row.queues.join(", ")}>
          {row.queues.join(", ")}
        </span>
      ),
    },
    {
      title: "Build",
      isWide: true,
      by: (row) => row.build,
      cell: (row) => <span className="font-mono text-xs">{row.build ?? "–"}</span>,
    },
    {
      title: "Isolation",
      isWide: true,
      by: (row) => row.isolation ?? null,
      cell: (row) => row.isolation ?? "–",
    },
    {
      title: "Memory",
      isWide: true,
      align: "right",
      by: (row) => row.memory_bytes,
      cell: (row) =>
        row.memory_bytes === null ? NONE : `${Math.round(row.memory_bytes / 1_048_576)} MB`,
    },
    {
      title: "Clock",
      isWide: true,
      align: "right",
      by: (row) => row.clock_skew_s && Math.abs(row.clock_skew_s),
      cell: (row) => <Clock skewS={row.clock_skew_s} />,
    },
    {
      title: "Last heartbeat",
      by: (row) => row.heartbeat_at,
      cell: (row) => (
        <span className="flex flex-col">
          <Ago at={row.heartbeat_at} />
          <span className="hidden text-faint text-xs md:inline">
            started <Ago at={row.started_at} />
          </span>
        </span>
      ),
    },
    {
      title: "Actions",
      cell: (row) =>
        (row.state === "live" || row.state === "draining") && (
          <span className="flex justify-end gap-1">
            {row.state === "live" && (
              <Button
                look="quiet"
                icon={Waves}
                label="Drain worker: finish its jobs, then exit"
                onClick={() => setOpen({ verb: "drain", worker: row })}
              />
            )}
            <Button
              look="quiet"
              icon={OctagonX}
              label="Stop worker: release its jobs, then exit"
              onClick={() => setOpen({ verb: "stop", worker: row })}
            />
          </span>
        ),
    },
  ];
  return (
    <Frame title="Workers" lead={builds && `Builds: ${builds}`}>
      {stale.length > 0 && <StaleWarning rows={stale} />}
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <Empty
          title="No workers in the last 24 hours"
          code="jobforge worker app.py --queues mail:10,default"
        >
          Jobs wait until a worker starts. Start one on any machine that can reach the database or
          this server:
        </Empty>
      ) : (
        <Panel>
          <Table
            label="Workers"
            columns={columns}
            rows={rows}
            idOf={(row) => row.id}
            isDim={(row) => row.state === "stopped"}
          />
        </Panel>
      )}
      {open && (
        <Confirm
          title={open.verb === "drain" ? "Drain this worker?" : "Stop this worker?"}
          verb={open.verb === "drain" ? "Drain worker" : "Stop worker"}
          isDangerous={open.verb === "stop"}
          onClose={() => setOpen(null)}
          act={async () => {
            const path = { worker_id: open.worker.id };
            if (open.verb === "drain")
              await call("post", "/api/v1/workers/{worker_id}/drain", { path });
            else await call("post", "/api/v1/workers/{worker_id}/stop", { path });
            toast("The worker receives the request with its next heartbeat.");
            await client.invalidateQueries({ queryKey: ["workers"] });
          }}
        >
          <p className="text-muted">
            {open.verb === "drain"
              ? "The worker claims no more jobs, and exits when its running jobs have finished."
              : "The worker releases its running jobs to the queue and exits. This does not use up an attempt."}
          </p>
        </Confirm>
      )}
    </Frame>
  );
}

function StaleWarning({ rows }: { rows: WorkerInfo[] }) {
  const held = rows.reduce((sum, row) => sum + row.running, 0);
  return (
    <Notice isBad>
      {rows.length === 1 ? "1 worker has" : `${rows.length} workers have`} sent no heartbeat for a
      minute.{" "}
      {held > 0
        ? `Running jobs: ${held}. Another worker recovers each job when its lease expires.`
        : "No jobs are affected."}
    </Notice>
  );
}

function WorkerState({ state }: { state: string }) {
  const look = LOOKS[state];
  if (!look) return <>{state}</>;
  const Icon = look.icon;
  return (
    <span className={`flex items-center gap-1.5 font-medium ${look.color}`}>
      <Icon size={14} aria-hidden className="shrink-0" />
      <span className="max-sm:sr-only">{look.label}</span>
    </span>
  );
}

/** Approximate, because it includes the duration of the heartbeat. */
function Clock({ skewS }: { skewS: number | null }) {
  if (skewS === null) return NONE;
  const way = skewS > 0 ? "ahead of" : "behind";
  const told = `About ${Math.abs(skewS).toFixed(1)} s ${way} the database's clock, which sets all times`;
  if (Math.abs(skewS) <= MOST_SKEW_S) {
    return (
      <span className="text-muted" title={told}>
        in sync
      </span>
    );
  }
  return (
    <span className="inline-flex items-center gap-1 font-medium text-warn" title={told}>
      <TriangleAlert size={12} aria-hidden />
      {skewS > 0 ? "+" : "−"}
      {duration(Math.abs(skewS) * 1000)}
    </span>
  );
}

function Slots({ row }: { row: WorkerInfo }) {
  return (
    <span className="flex items-center justify-between gap-2">
      <span className="num">
        {row.running} / {row.slots}
      </span>
      <span className="hidden h-1.5 w-14 overflow-hidden rounded-full bg-raised sm:block">
        <span
          className="block h-full bg-run"
          style={{ width: `${row.slots ? Math.min(100, (100 * row.running) / row.slots) : 0}%` }}
        />
      </span>
    </span>
  );
}

function buildsOf(rows: WorkerInfo[]): string | null {
  const counts = new Map<string, number>();
  for (const row of rows) {
    if (row.build && row.state !== "stopped")
      counts.set(row.build, (counts.get(row.build) ?? 0) + 1);
  }
  return counts.size > 0
    ? [...counts].map(([build, count]) => `${build} (${plural(count, "worker")})`).join(", ")
    : null;
}
