/**
 * The firings and event deliveries of a trigger, each with its job or the reason why there is none.
 */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { firings, reactions } from "@/api/queries";
import type { EventDelivery, Firing } from "@/api/schema";
import { Id } from "@/parts/copy";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago } from "@/parts/time";
import { Outcome } from "@/triggers/outcome";

const KINDS: Record<string, string> = {
  schedule: "schedule",
  manual: "manual",
  backfill: "backfill",
};

const FIRINGS: Column<Firing>[] = [
  { title: "Scheduled for", cell: (row) => <Ago at={row.fire_at} /> },
  { title: "Outcome", cell: (row) => <Outcome name={row.outcome} /> },
  {
    title: "Job or reason",
    isMain: true,
    cell: (row) => <JobOrReason row={row} />,
  },
  { title: "Cause", isWide: true, cell: (row) => KINDS[row.kind] ?? row.kind },
  { title: "Fired", isWide: true, cell: (row) => <Ago at={row.at} /> },
];

export function Firings({ id }: { id: string }) {
  const query = useQuery(firings(id));
  if (query.isPending) return <Skeleton rows={4} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return (
    <Panel title="Firings">
      {query.data.items.length === 0 ? (
        <Empty title="No firings yet">
          A scheduler fires this trigger. Every worker with a database connection includes a
          scheduler. To start a separate one, run{" "}
          <code className="font-mono">jobforge scheduler</code>.
        </Empty>
      ) : (
        <Table
          label="Firings"
          columns={FIRINGS}
          rows={query.data.items}
          idOf={(row) => `${row.fire_at} ${row.kind}`}
        />
      )}
    </Panel>
  );
}

const REACTIONS: Column<EventDelivery>[] = [
  { title: "Time", cell: (row) => <Ago at={row.at} /> },
  { title: "Outcome", cell: (row) => <Outcome name={row.outcome} /> },
  {
    title: "Job or reason",
    isMain: true,
    cell: (row) => <JobOrReason row={row} />,
  },
  {
    title: "Event",
    isWide: true,
    cell: (row) => (
      <Link to="/events/$id" params={{ id: row.event_id }} className="text-accent hover:underline">
        <Id id={row.event_id} />
      </Link>
    ),
  },
];

export function EventReactions({ id, event }: { id: string; event: string }) {
  const query = useQuery(reactions(id));
  if (query.isPending) return <Skeleton rows={4} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return (
    <Panel title="Event deliveries">
      {query.data.items.length === 0 ? (
        <Empty
          title="No matching events yet"
          code={`jf.emit("${event.replace(/\*$/, "created")}", {"order": 7})`}
        >
          The trigger creates a job when your application emits a matching event:
        </Empty>
      ) : (
        <Table
          label="Event deliveries"
          columns={REACTIONS}
          rows={query.data.items}
          idOf={(row) => row.id}
        />
      )}
    </Panel>
  );
}

interface Done {
  outcome: string;
  job_id: string | null;
  reason: string | null;
}

const REASONS: Record<string, string> = {
  filtered: "The event does not match the conditions.",
  deduplicated: "This job covers the event.",
};

export function JobOrReason({ row }: { row: Done }) {
  const { job_id: id } = row;
  const reason = row.reason ?? REASONS[row.outcome] ?? null;
  if (id === null) {
    return (
      <span className="block truncate text-muted" title={reason ?? undefined}>
        {reason ?? "–"}
      </span>
    );
  }
  return (
    <span className="flex min-w-0 items-center gap-2">
      <Link to="/jobs/$id" params={{ id }} className="text-accent hover:underline">
        <Id id={id} />
      </Link>
      {reason && <span className="truncate text-muted">{reason}</span>}
    </span>
  );
}
