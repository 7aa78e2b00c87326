/** Bulk operations and their progress. */

import { useQuery } from "@tanstack/react-query";
import { Square } from "lucide-react";
import { call } from "@/api/client";
import { printShort } from "@/api/json";
import { client, isOver, operations } from "@/api/queries";
import type { Operation } from "@/api/schema";
import { operationWords } from "@/jobs/bulk";
import { Bar } from "@/parts/bar";
import { Button } from "@/parts/button";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago } from "@/parts/time";
import { toastError } from "@/parts/toasts";
import { useSession } from "@/session";

export function Page() {
  const { may } = useSession();
  const query = useQuery({ ...operations(), refetchInterval: 2_000 });
  const columns: Column<Operation>[] = [
    {
      title: "Operation",
      cell: (row) => <span className="font-medium">{operationWords(row)}</span>,
    },
    {
      title: "Filter",
      isMain: true,
      cell: (row) => (
        <code className="block truncate font-mono text-xs" title={printShort(row.filter)}>
          {printShort(row.filter)}
        </code>
      ),
    },
    { title: "Progress", cell: (row) => <Progress row={row} /> },
    {
      title: "Reason",
      isWide: true,
      cell: (row) => <span className="block max-w-48 truncate">{row.reason ?? "–"}</span>,
    },
    {
      title: "Created by",
      isWide: true,
      cell: (row) => <span className="font-mono text-xs">{row.created_by}</span>,
    },
    { title: "Started", cell: (row) => <Ago at={row.created_at} /> },
  ];
  if (may("operations", "write")) {
    columns.push({
      title: "Actions",
      cell: (row) =>
        !isOver(row.state) && (
          <Button
            look="quiet"
            icon={Square}
            label="Stop operation"
            onClick={() => void stop(row.id)}
          />
        ),
    });
  }
  return (
    <Frame
      title="Operations"
      lead="Bulk actions that run in the background. Stopping an operation does not undo its changes."
    >
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.items.length === 0 ? (
        <Empty title="No operations yet">
          Select jobs on the Jobs page, then <em>all matching jobs</em>; or redrive a failure group.
        </Empty>
      ) : (
        <Panel>
          <Table
            label="Operations"
            columns={columns}
            rows={query.data.items}
            idOf={(row) => row.id}
          />
        </Panel>
      )}
    </Frame>
  );
}

function Progress({ row }: { row: Operation }) {
  const share =
    row.matched > 0 ? (row.done + row.skipped) / row.matched : isOver(row.state) ? 1 : 0;
  return (
    <span className="flex items-center gap-2">
      <span className="w-20">
        <Bar share={Math.min(1, share)} isBad={row.state === "failed"} />
      </span>
      <span className="num text-muted text-xs">
        {row.done}
        {row.skipped > 0 && `, ${row.skipped} skipped`} of {row.matched}
      </span>
    </span>
  );
}

async function stop(id: string): Promise<void> {
  try {
    await call("post", "/api/v1/operations/{operation_id}/cancel", { path: { operation_id: id } });
    await client.invalidateQueries({ queryKey: ["operations"] });
  } catch (error) {
    toastError(error);
  }
}
