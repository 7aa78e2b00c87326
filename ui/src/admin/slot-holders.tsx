/** The running jobs of a queue, across all tenants. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { X } from "lucide-react";
import { holders } from "@/api/queries";
import type { QueueInfo, SlotHolder } from "@/api/schema";
import { tenantHref } from "@/config";
import { Id } from "@/parts/copy";
import { Failure, Skeleton } from "@/parts/feedback";
import { Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago, Span } from "@/parts/time";

const COLUMNS: Column<SlotHolder>[] = [
  {
    title: "Job",
    isMain: true,
    cell: (row) => (
      <a
        href={tenantHref(row.slug ?? row.tenant_id, `/jobs/${row.job_id}`)}
        className="flex min-w-0 items-baseline gap-2 hover:text-accent"
      >
        <span className="truncate font-medium">
          {row.definition}
          <span className="text-faint">@{row.version}</span>
        </span>
        <span className="text-faint">
          <Id id={row.job_id} />
        </span>
      </a>
    ),
  },
  { title: "Tenant", cell: (row) => row.slug ?? <Id id={row.tenant_id} /> },
  { title: "Key", isWide: true, cell: (row) => row.limit_key ?? "–" },
  { title: "Worker", isWide: true, cell: (row) => <Id id={row.worker_id} /> },
  { title: "Lease expires", isWide: true, cell: (row) => <Ago at={row.lease_expires_at} /> },
  { title: "Running for", align: "right", cell: (row) => <Span from={row.started_at} /> },
];

export function Holders({ queue }: { queue: QueueInfo }) {
  const query = useQuery(holders(queue.name));
  const rows = query.data?.items ?? [];
  const of = queue.max_running === null ? "" : ` of ${queue.max_running}`;
  return (
    <Panel
      title={`Running jobs in ${queue.name}`}
      actions={
        <Link
          to="."
          search={{}}
          aria-label="Close panel"
          className="inline-flex size-7 items-center justify-center rounded-md text-muted hover:bg-hover"
        >
          <X size={14} aria-hidden />
        </Link>
      }
    >
      {query.isPending ? (
        <Skeleton rows={3} />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <p className="px-4 py-3 text-muted">No running jobs.</p>
      ) : (
        <>
          <p className="border-line border-b px-4 py-2 text-muted">
            {rows.length}
            {of} running: {byTenant(rows)}.
          </p>
          <Table
            label={`Running jobs in ${queue.name}`}
            columns={COLUMNS}
            rows={rows}
            idOf={(row) => row.job_id}
          />
        </>
      )}
    </Panel>
  );
}

function byTenant(rows: SlotHolder[]): string {
  const counts = new Map<string, number>();
  for (const row of rows) {
    const name = row.slug ?? row.tenant_id;
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts]
    .sort(([, one], [, other]) => other - one)
    .map(([name, count]) => `${count} for ${name}`)
    .join(", ");
}
