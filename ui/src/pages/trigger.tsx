/** One trigger: what came of it, and its editor. `new` is one that is not there yet. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ChevronLeft, Play, Trash2 } from "lucide-react";
import { useState } from "react";
import { call } from "@/api/client";
import { client, firings, reactions, trigger as triggerQuery } from "@/api/queries";
import type { EventDelivery, Firing, Trigger } from "@/api/schema";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { Id } from "@/parts/copy";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Panel, useTitle } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Tabs } from "@/parts/tabs";
import { Ago } from "@/parts/time";
import { toast, toastError } from "@/parts/toasts";
import { useSession } from "@/session";
import { TriggerEditor } from "@/triggers/editor";

export function Page() {
  const { id } = useParams({ strict: false }) as { id: string };
  const isNew = id === "new";
  const query = useQuery({ ...triggerQuery(id), enabled: !isNew });
  useTitle(isNew ? "New trigger" : (query.data?.label ?? "Trigger"));
  if (!isNew && query.isPending) return <Skeleton rows={10} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return (
    <div className="mx-auto flex w-full max-w-[1400px] flex-col gap-4 p-4 lg:px-6 lg:py-5">
      <Link
        to="/triggers"
        className="inline-flex items-center gap-0.5 self-start text-faint text-xs hover:text-text"
      >
        <ChevronLeft size={12} aria-hidden />
        Triggers
      </Link>
      {query.data ? (
        <Existing trigger={query.data} />
      ) : (
        <>
          <h1 className="font-semibold text-lg leading-7 tracking-tight">New trigger</h1>
          <TriggerEditor trigger={null} />
        </>
      )}
    </div>
  );
}

function Existing({ trigger }: { trigger: Trigger }) {
  const { may } = useSession();
  const navigate = useNavigate();
  const { tab = "history" } = useSearch({ strict: false }) as { tab?: string };
  const [isDeleting, setDeleting] = useState(false);
  const canAct = may("triggers", "write");

  async function run() {
    try {
      await call("post", "/api/v1/triggers/{trigger_id}/run", { path: { trigger_id: trigger.id } });
      toast("It fires now.");
      await client.invalidateQueries({ queryKey: ["trigger", trigger.id] });
    } catch (error) {
      toastError(error);
    }
  }

  return (
    <>
      <header className="flex flex-wrap items-start justify-between gap-3">
        <div className="min-w-0">
          <h1 className="font-semibold text-lg leading-7 tracking-tight">{trigger.label}</h1>
          <p className="text-muted">
            <code className="font-mono text-xs">{trigger.cron ?? trigger.event}</code>
            {trigger.type === "schedule" ? ` in ${trigger.zone}` : ""} runs {trigger.definition}
            {trigger.enabled ? "" : ", but is off"}
            {trigger.enabled && trigger.next_run_at ? (
              <>
                , next <Ago at={trigger.next_run_at} />
              </>
            ) : null}
            {trigger.declared ? ". It is declared in code." : "."}
          </p>
          {trigger.fault && <p className="text-bad">{trigger.fault}</p>}
        </div>
        {canAct && (
          <div className="flex gap-2">
            {trigger.type === "schedule" && (
              <Button icon={Play} onClick={() => void run()}>
                Run now
              </Button>
            )}
            <Button look="danger" icon={Trash2} onClick={() => setDeleting(true)}>
              Delete
            </Button>
          </div>
        )}
      </header>
      <Tabs
        label="Views"
        active={tab}
        tabs={[
          { name: "history", label: "History" },
          ...(canAct ? [{ name: "edit", label: "Edit" }] : []),
        ]}
        onChoose={(name) =>
          void navigate({
            to: "/triggers/$id",
            params: { id: trigger.id },
            search: { tab: name },
          })
        }
      />
      {tab === "edit" && canAct ? (
        <TriggerEditor key={trigger.updated_at} trigger={trigger} />
      ) : trigger.type === "schedule" ? (
        <Firings id={trigger.id} />
      ) : (
        <Reactions id={trigger.id} />
      )}
      {isDeleting && (
        <Confirm
          title={`Delete ${trigger.label}?`}
          verb="Delete it"
          isDangerous
          onClose={() => setDeleting(false)}
          act={async () => {
            await call("delete", "/api/v1/triggers/{trigger_id}", {
              path: { trigger_id: trigger.id },
            });
            await client.invalidateQueries({ queryKey: ["triggers"] });
            void navigate({ to: "/triggers" });
          }}
        >
          <p className="text-muted">It makes no more jobs. Those that it made stay.</p>
        </Confirm>
      )}
    </>
  );
}

const COLOURS: Record<string, string> = {
  enqueued: "text-ok",
  failed: "text-bad",
  pending: "text-run",
};

function Outcome({ name }: { name: string }) {
  return <span className={`font-medium ${COLOURS[name] ?? "text-muted"}`}>{name}</span>;
}

function JobOf({ id }: { id: string | null }) {
  if (id === null) return <span className="text-faint">–</span>;
  return (
    <Link to="/jobs/$id" params={{ id }} className="text-accent hover:underline">
      <Id id={id} />
    </Link>
  );
}

function Firings({ id }: { id: string }) {
  const query = useQuery(firings(id));
  const columns: Column<Firing>[] = [
    { title: "For", cell: (row) => <Ago at={row.fire_at} /> },
    { title: "What came of it", cell: (row) => <Outcome name={row.outcome} /> },
    {
      title: "Why",
      isMain: true,
      cell: (row) => <span className="block truncate">{row.reason ?? ""}</span>,
    },
    { title: "How", isWide: true, cell: (row) => row.kind },
    { title: "Job", cell: (row) => <JobOf id={row.job_id} /> },
  ];
  if (query.isPending) return <Skeleton />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return (
    <Panel>
      {query.data.items.length === 0 ? (
        <Empty title="It has not fired yet">What comes of each of its times is written here.</Empty>
      ) : (
        <Table
          label="Firings"
          columns={columns}
          rows={query.data.items}
          idOf={(row) => `${row.fire_at}${row.at}`}
        />
      )}
    </Panel>
  );
}

function Reactions({ id }: { id: string }) {
  const query = useQuery(reactions(id));
  const columns: Column<EventDelivery>[] = [
    { title: "When", cell: (row) => <Ago at={row.at} /> },
    { title: "What came of it", cell: (row) => <Outcome name={row.outcome} /> },
    {
      title: "Why",
      isMain: true,
      cell: (row) => <span className="block truncate">{row.reason ?? ""}</span>,
    },
    {
      title: "Event",
      cell: (row) => (
        <Link
          to="/events/$id"
          params={{ id: row.event_id }}
          className="text-accent hover:underline"
        >
          <Id id={row.event_id} />
        </Link>
      ),
    },
    { title: "Job", cell: (row) => <JobOf id={row.job_id} /> },
  ];
  if (query.isPending) return <Skeleton />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return (
    <Panel>
      {query.data.items.length === 0 ? (
        <Empty title="No event has come yet">
          What it makes of each event is written here, and why not.
        </Empty>
      ) : (
        <Table
          label="Deliveries"
          columns={columns}
          rows={query.data.items}
          idOf={(row) => row.id}
        />
      )}
    </Panel>
  );
}
