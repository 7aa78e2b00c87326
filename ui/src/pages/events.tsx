/** What happened in the application, and what came of it. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Send } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { client, events } from "@/api/queries";
import type { EventListing } from "@/api/schema";
import { faultOf } from "@/jobs/edited-retry";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Area, Field, Input } from "@/parts/form";
import { Page as Frame, Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago } from "@/parts/time";
import { useSession } from "@/session";

const COLUMNS: Column<EventListing>[] = [
  { title: "When", cell: (row) => <Ago at={row.created_at} /> },
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
  { title: "What came of it", cell: (row) => <Outcomes row={row} /> },
  {
    title: "By",
    isWide: true,
    cell: (row) => <span className="font-mono text-xs">{row.created_by}</span>,
  },
];

export function Page() {
  const { may } = useSession();
  const { name } = useSearch({ strict: false }) as { name?: string };
  const navigate = useNavigate();
  const query = useQuery(events(name ? { name } : {}));
  const [isSending, setSending] = useState(false);
  return (
    <Frame
      title="Events"
      lead="What your application told, which triggers it woke, and which not."
      actions={
        may("events", "write") && (
          <Button icon={Send} onClick={() => setSending(true)}>
            Send an event
          </Button>
        )
      }
    >
      <Input
        data-filter
        aria-label="Name of the event"
        placeholder="Only events of this name"
        defaultValue={name ?? ""}
        className="max-w-md"
        onBlur={(e) => void navigate({ to: "/events", search: { name: e.target.value } })}
        onKeyDown={(e) => {
          if (e.key === "Enter") e.currentTarget.blur();
        }}
      />
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.items.length === 0 ? (
        <Empty title="No events" code={'jf.emit("order.paid", {"order": 4711})'}>
          An event is told in your application's own transaction:
        </Empty>
      ) : (
        <Panel>
          <Table
            label="Events"
            columns={COLUMNS}
            rows={query.data.items}
            idOf={(row) => row.id}
            onOpen={(row) => void navigate({ to: "/events/$id", params: { id: row.id } })}
          />
        </Panel>
      )}
      {isSending && <SendDialog onClose={() => setSending(false)} />}
    </Frame>
  );
}

function Outcomes({ row }: { row: EventListing }) {
  if (row.is_pending) return <span className="text-run">on its way</span>;
  const counts = Object.entries(row.outcomes as Record<string, number>);
  if (counts.length === 0) return <span className="text-faint">no trigger matches</span>;
  return (
    <span className="flex gap-3">
      {counts.map(([outcome, count]) => (
        <span
          key={outcome}
          className={
            outcome === "enqueued" ? "text-ok" : outcome === "failed" ? "text-bad" : "text-muted"
          }
        >
          {count} {outcome}
        </span>
      ))}
    </span>
  );
}

function SendDialog({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate();
  const [name, setName] = useState("");
  const [data, setData] = useState("{}");
  const fault = faultOf(data);
  return (
    <Confirm
      title="Send an event"
      verb="Send it"
      isReady={name !== "" && fault === null}
      onClose={onClose}
      act={async () => {
        const text = `{"name": ${JSON.stringify(name)}, "data": ${data}}`;
        const { id } = await call("post", "/api/v1/events", { text });
        await client.invalidateQueries({ queryKey: ["events"] });
        void navigate({ to: "/events/$id", params: { id } });
      }}
    >
      <Field label="Name" isRequired>
        {(id) => (
          <Input
            id={id}
            className="font-mono"
            placeholder="order.paid"
            value={name}
            onChange={(e) => setName(e.target.value)}
          />
        )}
      </Field>
      <Field label="Data" hint={fault}>
        {(id) => <Area id={id} rows={6} value={data} onChange={(e) => setData(e.target.value)} />}
      </Field>
    </Confirm>
  );
}
