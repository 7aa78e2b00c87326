/** What makes jobs by itself: at times, and on events. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { CalendarClock, Plus, Zap } from "lucide-react";
import { call } from "@/api/client";
import { client, triggers } from "@/api/queries";
import type { Trigger } from "@/api/schema";
import { Button } from "@/parts/button";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago } from "@/parts/time";
import { toastError } from "@/parts/toasts";
import { useSession } from "@/session";

export function Page() {
  const { may } = useSession();
  const navigate = useNavigate();
  const query = useQuery({ ...triggers(), refetchInterval: 5_000 });
  const canAct = may("triggers", "write");
  const columns: Column<Trigger>[] = [
    {
      title: "Trigger",
      isMain: true,
      cell: (row) => (
        <span className="flex min-w-0 flex-col">
          <Link
            to="/triggers/$id"
            params={{ id: row.id }}
            className="truncate font-medium hover:text-accent"
          >
            {row.label}
          </Link>
          {row.fault && <span className="truncate text-bad text-xs">{row.fault}</span>}
        </span>
      ),
    },
    { title: "When", cell: (row) => <When row={row} /> },
    { title: "Runs", isWide: true, cell: (row) => row.definition },
    { title: "Last", isWide: true, cell: (row) => <Ago at={row.last_fired_at} /> },
    { title: "Next", cell: (row) => <Ago at={row.enabled ? row.next_run_at : null} /> },
    {
      title: "On",
      cell: (row) => <Switch row={row} isDisabled={!canAct} />,
    },
  ];
  return (
    <Frame
      title="Triggers"
      lead="What makes jobs by itself: at times, and when something happens."
      actions={
        canAct && (
          <Button
            look="primary"
            icon={Plus}
            onClick={() => void navigate({ to: "/triggers/$id", params: { id: "new" } })}
          >
            New trigger
          </Button>
        )
      }
    >
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.items.length === 0 ? (
        <Empty
          title="No triggers yet"
          code={'@jf.job(cron="0 9 * * MON-FRI", tz="tenant")\ndef daily_report() -> None: ...'}
        >
          Make one here, or declare it where the job is:
        </Empty>
      ) : (
        <Panel>
          <Table
            label="Triggers"
            columns={columns}
            rows={query.data.items}
            idOf={(row) => row.id}
            isDim={(row) => !row.enabled}
            onOpen={(row) => void navigate({ to: "/triggers/$id", params: { id: row.id } })}
          />
        </Panel>
      )}
    </Frame>
  );
}

function When({ row }: { row: Trigger }) {
  const Icon = row.type === "schedule" ? CalendarClock : Zap;
  return (
    <span className="flex items-center gap-1.5">
      <Icon size={14} className="text-faint" aria-hidden />
      <code className="font-mono text-xs">{row.cron ?? row.event}</code>
      {row.type === "schedule" && <span className="text-faint text-xs">{row.zone}</span>}
    </span>
  );
}

function Switch({ row, isDisabled }: { row: Trigger; isDisabled: boolean }) {
  return (
    <button
      type="button"
      role="switch"
      aria-checked={row.enabled}
      aria-label={`${row.label} is on`}
      disabled={isDisabled}
      onClick={() => void toggle(row)}
      className={`relative block h-5 w-9 rounded-full disabled:opacity-50 ${row.enabled ? "bg-accent" : "bg-strong"}`}
    >
      <span
        className={`absolute top-0.5 size-4 rounded-full bg-surface ${row.enabled ? "left-[18px]" : "left-0.5"}`}
      />
    </button>
  );
}

async function toggle(row: Trigger): Promise<void> {
  try {
    await call("patch", "/api/v1/triggers/{trigger_id}", {
      path: { trigger_id: row.id },
      body: { enabled: !row.enabled },
    });
    await client.invalidateQueries({ queryKey: ["triggers"] });
  } catch (error) {
    toastError(error);
  }
}
