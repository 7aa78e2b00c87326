/** One event: its data, and what each trigger did with it. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams } from "@tanstack/react-router";
import { Plus, RotateCcw, Send } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { print } from "@/api/json";
import { client, event as eventQuery } from "@/api/queries";
import type { Event, EventDelivery } from "@/api/schema";
import { Emit } from "@/events/emit";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { CopyButton, Id } from "@/parts/copy";
import { Detail } from "@/parts/detail";
import { Facts } from "@/parts/fact-list";
import { Failure, Skeleton } from "@/parts/feedback";
import { JsonView } from "@/parts/json";
import { Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago } from "@/parts/time";
import { toast } from "@/parts/toasts";
import { useSession } from "@/session";
import { JobOrReason } from "@/triggers/history";
import { Outcome } from "@/triggers/outcome";

export function Page() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useQuery(eventQuery(id));
  if (query.isPending) return <Skeleton rows={8} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return <View event={query.data} />;
}

const COLUMNS: Column<EventDelivery>[] = [
  {
    title: "Trigger",
    cell: (row) => (
      <Link
        to="/triggers/$id"
        params={{ id: row.trigger_id }}
        className="block max-w-28 truncate sm:max-w-44 font-medium hover:text-accent"
      >
        {row.label ?? "deleted trigger"}
      </Link>
    ),
  },
  { title: "Outcome", cell: (row) => <Outcome name={row.outcome} /> },
  {
    title: "Job or reason",
    isMain: true,
    cell: (row) => <JobOrReason row={row} />,
  },
  {
    title: "Time",
    isWide: true,
    cell: (row) => (
      <>
        <Ago at={row.at} />
        {row.replay > 0 && <span className="text-faint"> replay {row.replay}</span>}
      </>
    ),
  },
];

function View({ event }: { event: Event }) {
  const { may } = useSession();
  const navigate = useNavigate();
  const [open, setOpen] = useState<"replay" | "again" | null>(null);
  const canAct = may("events", "write");
  return (
    <Detail
      back={{ to: "/events", label: "Events" }}
      title={event.name}
      lead={
        <>
          <code className="truncate font-mono text-faint text-xs">{event.id}</code>
          <CopyButton text={event.id} label="Copy ID" />
        </>
      }
      actions={
        canAct && (
          <>
            <Button icon={Send} onClick={() => setOpen("again")}>
              Emit copy
            </Button>
            <Button icon={RotateCcw} onClick={() => setOpen("replay")}>
              Replay
            </Button>
          </>
        )
      }
    >
      <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-4 xl:grid-cols-[minmax(0,1fr)_380px]">
        <Panel title="Deliveries">
          {event.deliveries.length > 0 ? (
            <Table
              label="Deliveries"
              columns={COLUMNS}
              rows={event.deliveries}
              idOf={(row) => row.id}
            />
          ) : event.is_pending ? (
            <p className="px-4 py-3 text-muted">
              Waiting for a scheduler to dispatch the event. Every worker with a database connection
              includes one.
            </p>
          ) : (
            <div className="flex flex-col items-start gap-3 px-4 py-4">
              <p className="text-muted">
                No event trigger was set up for <code className="font-mono">{event.name}</code> when
                the event was emitted.
              </p>
              {may("triggers", "write") && (
                <Button
                  icon={Plus}
                  onClick={() =>
                    void navigate({
                      to: "/triggers/new",
                      search: { type: "event", event: event.name },
                    })
                  }
                >
                  Create event trigger
                </Button>
              )}
            </div>
          )}
        </Panel>
        <div className="flex min-w-0 flex-col gap-4">
          <Panel title="Data">
            <JsonView label="Data" value={event.data} />
          </Panel>
          <Panel title="Details">
            <Facts
              facts={[
                ["Emitted", <Ago key="sent" at={event.created_at} />],
                ["Emitted by", event.created_by],
                [
                  "Correlation ID",
                  <Link
                    key="correlation"
                    to="/jobs"
                    search={{ correlation_id: event.correlation_id }}
                    className="hover:text-accent hover:underline"
                  >
                    <Id id={event.correlation_id} />
                  </Link>,
                ],
              ]}
            />
          </Panel>
        </div>
      </div>
      {open === "again" && (
        <Emit name={event.name} data={print(event.data)} onClose={() => setOpen(null)} />
      )}
      {open === "replay" && (
        <Confirm
          title={`Replay ${event.name}?`}
          verb="Replay event"
          onClose={() => setOpen(null)}
          act={async () => {
            await call("post", "/api/v1/events/{event_id}/replay", {
              path: { event_id: event.id },
            });
            toast("Event replayed.");
            await client.invalidateQueries({ queryKey: ["event", event.id] });
          }}
        >
          <p className="text-muted">
            Event triggers process the event again, with their current settings. They create new
            jobs even if the event created jobs before.
          </p>
        </Confirm>
      )}
    </Detail>
  );
}
