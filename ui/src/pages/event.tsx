/** One event: its data, and what each trigger made of it. */

import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { ChevronLeft, RotateCcw } from "lucide-react";
import { call } from "@/api/client";
import { client, event as eventQuery } from "@/api/queries";
import type { EventDelivery } from "@/api/schema";
import { Button } from "@/parts/button";
import { Id } from "@/parts/copy";
import { Failure, Skeleton } from "@/parts/feedback";
import { JsonView } from "@/parts/json";
import { Panel, useTitle } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago } from "@/parts/time";
import { toast, toastError } from "@/parts/toasts";
import { useSession } from "@/session";

const COLUMNS: Column<EventDelivery>[] = [
  {
    title: "Trigger",
    cell: (row) => (
      <Link
        to="/triggers/$id"
        params={{ id: row.trigger_id }}
        className="font-medium hover:text-accent"
      >
        {row.label ?? "deleted"}
      </Link>
    ),
  },
  {
    title: "What came of it",
    cell: (row) => (
      <span
        className={
          row.outcome === "enqueued"
            ? "text-ok"
            : row.outcome === "failed"
              ? "text-bad"
              : "text-muted"
        }
      >
        {row.outcome}
        {row.replay > 0 && <span className="text-faint"> · replay {row.replay}</span>}
      </span>
    ),
  },
  {
    title: "Why",
    isMain: true,
    cell: (row) => <span className="block truncate">{row.reason ?? ""}</span>,
  },
  {
    title: "Job",
    cell: (row) =>
      row.job_id ? (
        <Link to="/jobs/$id" params={{ id: row.job_id }} className="text-accent hover:underline">
          <Id id={row.job_id} />
        </Link>
      ) : (
        <span className="text-faint">–</span>
      ),
  },
  { title: "When", isWide: true, cell: (row) => <Ago at={row.at} /> },
];

export function Page() {
  const { id } = useParams({ strict: false }) as { id: string };
  const { may } = useSession();
  const query = useQuery(eventQuery(id));
  useTitle(query.data?.name ?? "Event");
  if (query.isPending) return <Skeleton rows={8} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  const found = query.data;
  return (
    <div className="mx-auto flex w-full max-w-[1400px] flex-col gap-4 p-4 lg:px-6 lg:py-5">
      <header className="flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          <Link
            to="/events"
            className="mb-1 inline-flex items-center gap-0.5 text-faint text-xs hover:text-text"
          >
            <ChevronLeft size={12} aria-hidden />
            Events
          </Link>
          <h1 className="break-all font-semibold text-lg leading-7 tracking-tight">{found.name}</h1>
          <p className="text-muted">
            <Ago at={found.created_at} /> by {found.created_by}
          </p>
        </div>
        {may("events", "write") && (
          <Button icon={RotateCcw} onClick={() => void replay(id)}>
            Replay
          </Button>
        )}
      </header>
      <Panel title="What came of it">
        {found.deliveries.length === 0 ? (
          <p className="px-4 py-3 text-muted">
            {found.is_pending ? "It is on its way." : "No trigger matches this event."}
          </p>
        ) : (
          <Table
            label="Deliveries"
            columns={COLUMNS}
            rows={found.deliveries}
            idOf={(row) => row.id}
          />
        )}
      </Panel>
      <Panel title="Data">
        <JsonView label="Data" value={found.data} />
      </Panel>
    </div>
  );
}

async function replay(id: string): Promise<void> {
  try {
    await call("post", "/api/v1/events/{event_id}/replay", { path: { event_id: id } });
    toast("Triggers act on it again.");
    await client.invalidateQueries({ queryKey: ["event", id] });
  } catch (error) {
    toastError(error);
  }
}
