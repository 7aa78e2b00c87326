/** The emitted events and their outcomes. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Send } from "lucide-react";
import { useState } from "react";
import { events } from "@/api/queries";
import type { EventListing } from "@/api/schema";
import { Emit } from "@/events/emit";
import { Button } from "@/parts/button";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Input } from "@/parts/form";
import { LoadOlder } from "@/parts/load-older";
import { Page as Frame, Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago } from "@/parts/time";
import { useSession } from "@/session";
import { Outcome } from "@/triggers/outcome";

const COLUMNS: Column<EventListing>[] = [
  {
    title: "Event",
    isMain: true,
    cell: (row) => (
      <Link
        to="/events/$id"
        params={{ id: row.id }}
        className="block truncate font-medium hover:text-accent"
      >
        {row.name}
      </Link>
    ),
  },
  { title: "Deliveries", cell: (row) => <Outcomes row={row} /> },
  {
    title: "Emitted by",
    isWide: true,
    cell: (row) => <span className="font-mono text-xs">{row.created_by}</span>,
  },
  { title: "Emitted", cell: (row) => <Ago at={row.created_at} /> },
];

export function Page() {
  const { name } = useSearch({ strict: false }) as { name?: string };
  const { may } = useSession();
  const navigate = useNavigate();
  const [isSending, setSending] = useState(false);
  const query = useInfiniteQuery(events(name));
  const rows = query.data?.pages.flatMap((page) => page.items) ?? [];
  const canAct = may("events", "write");

  function look(text: string) {
    if (text !== (name ?? ""))
      void navigate({ to: "/events", search: { name: text || undefined }, replace: true });
  }

  return (
    <Frame
      title="Events"
      lead="Events emitted by your applications. Triggers turn them into jobs."
      actions={
        <>
          <Input
            key={name}
            data-filter
            aria-label="Event name"
            placeholder="Name or order.*"
            className="!w-44"
            defaultValue={name ?? ""}
            onKeyDown={(event) => {
              if (event.key === "Enter") look(event.currentTarget.value.trim());
            }}
            onBlur={(event) => look(event.target.value.trim())}
          />
          {canAct && (
            <Button look="primary" icon={Send} onClick={() => setSending(true)}>
              Emit event
            </Button>
          )}
        </>
      }
    >
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <EmptyState name={name} />
      ) : (
        <Panel>
          <Table
            label="Events"
            columns={COLUMNS}
            rows={rows}
            idOf={(row) => row.id}
            onOpen={(row) => void navigate({ to: "/events/$id", params: { id: row.id } })}
          />
          <LoadOlder of={query} />
        </Panel>
      )}
      {isSending && <Emit onClose={() => setSending(false)} />}
    </Frame>
  );
}

function EmptyState({ name }: { name: string | undefined }) {
  if (name) {
    return (
      <Empty title="No events with this name">
        Enter the exact name, or a prefix such as <code className="font-mono">order.*</code>.
      </Empty>
    );
  }
  return (
    <Empty title="No events yet" code={'jf.emit("order.paid", {"order": 7}, conn=conn)'}>
      Emit an event from your application, also within its own transaction:
    </Empty>
  );
}

function Outcomes({ row }: { row: EventListing }) {
  const counted = Object.entries(row.outcomes).filter(([, count]) => count > 0);
  if (row.is_pending) return <Outcome name="pending" />;
  if (counted.length === 0) return <span className="text-faint">no trigger</span>;
  return (
    <span className="flex flex-wrap gap-x-3">
      {counted.map(([outcome, count]) => (
        <Outcome key={outcome} name={outcome} count={count} />
      ))}
    </span>
  );
}
