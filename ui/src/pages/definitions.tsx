/** The definitions. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Pause } from "lucide-react";
import { definitions, statistics } from "@/api/queries";
import type { DefinitionListing, Statistic } from "@/api/schema";
import { failuresOf, rangeOf } from "@/charts/ranges";
import { Limits } from "@/jobs/limits";
import { short } from "@/jobs/short-count";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { type Column, Count, Table } from "@/parts/table";
import { duration } from "@/parts/time";
import { useSession } from "@/session";

const DAY = rangeOf("24h");

interface Row extends DefinitionListing {
  day: Statistic | undefined;
}

const COLUMNS: Column<Row>[] = [
  {
    title: "Definition",
    isMain: true,
    by: (row) => row.key,
    cell: (row) => (
      <span className="flex min-w-0 flex-col">
        <Link
          to="/definitions/$key"
          params={{ key: row.key }}
          className="truncate font-medium hover:text-accent"
        >
          {row.key}
          <span className="text-faint">@{row.version}</span>
        </Link>
        {row.description && <span className="truncate text-muted text-xs">{row.description}</span>}
      </span>
    ),
  },
  { title: "Status", cell: (row) => <Standing row={row} /> },
  {
    title: "Queue",
    isWide: true,
    by: (row) => row.queue,
    cell: (row) => (
      <span className="block max-w-48 truncate" title={row.queue}>
        {row.queue}
      </span>
    ),
  },
  {
    title: "Attempts in 24 h",
    isWide: true,
    align: "right",
    by: (row) => row.day?.attempts ?? 0,
    cell: (row) => <Count of={row.day?.attempts ?? 0} text={short(row.day?.attempts ?? 0)} />,
  },
  {
    title: "Failed",
    isWide: true,
    align: "right",
    by: (row) => (row.day ? failuresOf(row.day) / row.day.attempts : null),
    cell: (row) => <Failed day={row.day} />,
  },
  {
    title: "Run p95",
    isWide: true,
    align: "right",
    by: (row) => row.day?.run_p95_ms ?? null,
    cell: (row) =>
      row.day?.run_p95_ms == null ? (
        <span className="text-faint">–</span>
      ) : (
        duration(row.day.run_p95_ms)
      ),
  },
  { title: "Limits", isWide: true, cell: (row) => <Limits row={row} /> },
];

export function Page() {
  const query = useQuery(definitions());
  const { may } = useSession();
  const ran = useQuery({
    ...statistics(DAY, { by: "definition", isWhole: true }),
    enabled: may("statistics", "read"),
  });
  const days = new Map(ran.data?.items.map((each) => [each.definition, each]));
  const navigate = useNavigate();
  return (
    <Frame title="Definitions" lead="Registered by your workers. Open a definition to run a job.">
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.items.length === 0 ? (
        <Empty
          title="No definitions yet"
          code={
            '@jf.job(queue="mail")\ndef send_welcome(to: str, name: str) -> None: ...\n\n$ jobforge worker app.py'
          }
        >
          A worker registers the jobs of its app when it starts:
        </Empty>
      ) : (
        <Panel>
          <Table
            label="Definitions"
            columns={COLUMNS}
            rows={query.data.items.map((each) => ({ ...each, day: days.get(each.key) }))}
            idOf={(row) => row.key}
            onOpen={(row) => void navigate({ to: "/definitions/$key", params: { key: row.key } })}
          />
        </Panel>
      )}
    </Frame>
  );
}

function Failed({ day }: { day: Statistic | undefined }) {
  const failed = failuresOf(day ?? null);
  if (!day || failed === 0) return <span className="text-faint">–</span>;
  return (
    <span className="text-bad" title={`${failed} of ${day.attempts} attempts`}>
      {Math.max(1, Math.round((100 * failed) / day.attempts))}%
    </span>
  );
}

export function Standing({ row }: { row: { paused_at: string | null; is_active: boolean } }) {
  if (row.paused_at) {
    return (
      <span className="inline-flex items-center gap-1.5 align-bottom font-medium text-warn">
        <Pause size={13} aria-hidden /> Paused
      </span>
    );
  }
  return row.is_active ? (
    <span className="text-ok">Active</span>
  ) : (
    <span className="text-faint">Inactive</span>
  );
}
