/** The triggers, which create jobs on a schedule or for events. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { AlarmClock, Code, Plus, Radio } from "lucide-react";
import { call } from "@/api/client";
import { client, lastOutcome, triggers } from "@/api/queries";
import type { Trigger } from "@/api/schema";
import { Button } from "@/parts/button";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { plural } from "@/parts/plural";
import { Switch } from "@/parts/switch";
import { type Column, Table } from "@/parts/table";
import { Tabs } from "@/parts/tabs";
import { Ago } from "@/parts/time";
import { toastError } from "@/parts/toasts";
import { useSession } from "@/session";
import { timesOf } from "@/triggers/labels";
import { Outcome } from "@/triggers/outcome";

const CODE =
  '@jf.job(cron="0 9 * * MON-FRI", tz="Europe/Berlin")\ndef morning_report() -> None: ...';

export function Page() {
  const { type } = useSearch({ strict: false }) as { type?: string };
  const { may } = useSession();
  const navigate = useNavigate();
  const query = useQuery(triggers());
  const canAct = may("triggers", "write");
  const rows = query.data?.items.filter((row) => type === undefined || row.type === type) ?? [];
  const columns: Column<Trigger>[] = [
    { title: "Enabled", cell: (row) => <OnOff row={row} canAct={canAct} /> },
    { title: "Trigger", isMain: true, by: (row) => row.label, cell: (row) => <Name row={row} /> },
    { title: "Schedule or event", isWide: true, cell: (row) => <TriggerTiming row={row} /> },
    {
      title: "Last firing",
      isWide: true,
      by: (row) => row.last_fired_at,
      cell: (row) => <LastFiring row={row} />,
    },
    { title: "Next run", by: (row) => row.next_run_at, cell: (row) => <NextFiring row={row} /> },
  ];
  const make = () =>
    void navigate({ to: "/triggers/new", search: { type: type === "event" ? type : undefined } });
  return (
    <Frame
      title="Triggers"
      lead="Create jobs automatically, on a schedule or when an event occurs."
      actions={
        canAct && (
          <Button look="primary" icon={Plus} onClick={make}>
            Create trigger
          </Button>
        )
      }
    >
      <Tabs
        label="Type"
        name="type"
        active={type ?? "all"}
        tabs={[
          ["all", "All"],
          ["schedule", "Schedules"],
          ["event", "Event triggers"],
        ]}
      />
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <Empty title="No triggers yet" code={CODE}>
          {canAct
            ? "Create a trigger here, or declare a schedule in code:"
            : "A tenant admin can create triggers here. You can also declare a schedule in code:"}
        </Empty>
      ) : (
        <Panel>
          <Table
            label="Triggers"
            columns={columns}
            rows={rows}
            idOf={(row) => row.id}
            onOpen={(row) => void navigate({ to: "/triggers/$id", params: { id: row.id } })}
          />
        </Panel>
      )}
    </Frame>
  );
}

export function OnOff({ row, canAct }: { row: Trigger; canAct: boolean }) {
  if (!canAct) {
    return row.enabled ? (
      <span className="text-ok">Enabled</span>
    ) : (
      <span className="text-faint">Disabled</span>
    );
  }
  return (
    <Switch
      isOn={row.enabled}
      label={`${row.enabled ? "Disable" : "Enable"} ${row.label}`}
      onChange={(enabled) => void enable(row.id, enabled)}
    />
  );
}

async function enable(id: string, enabled: boolean): Promise<void> {
  try {
    await call("patch", "/api/v1/triggers/{trigger_id}", {
      path: { trigger_id: id },
      body: { enabled },
    });
  } catch (error) {
    toastError(error);
  }
  await client.invalidateQueries({ queryKey: ["triggers"] });
  await client.invalidateQueries({ queryKey: ["trigger", id] });
}

function Name({ row }: { row: Trigger }) {
  const Icon = row.type === "schedule" ? AlarmClock : Radio;
  return (
    <span className="flex min-w-0 items-center gap-2.5">
      <Icon
        size={14}
        className="shrink-0 text-faint"
        aria-label={row.type === "schedule" ? "Schedule" : "Event trigger"}
      />
      <span className="flex min-w-0 flex-col">
        <span className="flex min-w-0 items-center gap-1.5">
          <Link
            to="/triggers/$id"
            params={{ id: row.id }}
            className="truncate font-medium hover:text-accent"
          >
            {row.label}
          </Link>
          {row.declared && (
            <Code size={12} className="shrink-0 text-faint" aria-label="Declared in code" />
          )}
        </span>
        <span className="truncate text-muted text-xs">
          {row.fault ? <span className="text-bad">{row.fault}</span> : row.definition}
        </span>
      </span>
    </span>
  );
}

function TriggerTiming({ row }: { row: Trigger }) {
  return (
    <span className="flex max-w-64 flex-col">
      <code className="truncate font-mono text-xs" title={row.cron ?? row.event ?? ""}>
        {row.cron === null ? row.event : timesOf(row.cron)}
      </code>
      {row.type === "schedule" ? (
        <span className="text-faint text-xs">{row.zone}</span>
      ) : (
        row.filter.length > 0 && (
          <span className="text-faint text-xs">{plural(row.filter.length, "condition")}</span>
        )
      )}
    </span>
  );
}

function LastFiring({ row }: { row: Trigger }) {
  const { data } = useQuery(lastOutcome(row.id, row.type, row.last_fired_at));
  if (row.last_fired_at === null) return <span className="text-faint">never</span>;
  return (
    <span className="flex flex-col">
      {data ? <Outcome name={data} /> : <span>…</span>}
      <span className="text-faint text-xs">
        <Ago at={row.last_fired_at} />
      </span>
    </span>
  );
}

function NextFiring({ row }: { row: Trigger }) {
  if (!row.enabled) return <span className="text-faint">disabled</span>;
  if (row.type === "event") return <span className="text-faint">on event</span>;
  return row.next_run_at ? (
    <Ago at={row.next_run_at} />
  ) : (
    <span className="text-faint">not known yet</span>
  );
}
