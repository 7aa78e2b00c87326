/** Those who fire schedules, dispatch events and keep house: whether they come, and how late. */

import { useQuery } from "@tanstack/react-query";
import { TriangleAlert } from "lucide-react";
import { database, tenants } from "@/api/queries";
import type { SchedulerState, Standstill } from "@/api/schema";
import { tenantHref } from "@/config";
import { short } from "@/jobs/counts";
import { Failure, Skeleton, Snippet } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago, duration, relative } from "@/parts/time";

const SILENT_S = 120;
const LATE_S = 60;

export function Page() {
  const query = useQuery({ ...database(), refetchInterval: 5_000 });
  if (query.isPending) return <Skeleton rows={8} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  const { scheduler, troubles } = query.data;
  return (
    <Frame
      title="Scheduler"
      lead="Any number may run, and every worker with a database carries one; one acts at a time, so nothing is made twice."
    >
      <Standing state={scheduler} />
      <Upkeep state={scheduler} />
      <Troubles rows={troubles} />
    </Frame>
  );
}

/** The statistics are added up twice a minute: who did that last was there. */
function heardOf(state: SchedulerState): number | null {
  const ages = state.upkeep.map((each) => each.age_s);
  return ages.length === 0 ? null : Math.min(...ages);
}

function Standing({ state }: { state: SchedulerState }) {
  const heard = heardOf(state);
  const isSilent = heard === null || heard > SILENT_S;
  const figures: [string, string, boolean][] = [
    ["A scheduler acted", heard === null ? "never" : relative(-heard * 1000), isSilent],
    ["Schedules", late(state.schedule_lag_s), state.schedule_lag_s > LATE_S],
    [
      `Events, ${short(state.pending_events)} waiting`,
      late(state.event_lag_s),
      state.event_lag_s > LATE_S,
    ],
    ["Triggers with a fault", short(state.faulty_triggers), state.faulty_triggers > 0],
  ];
  return (
    <>
      {isSilent && (
        <div
          role="alert"
          className="flex flex-col rounded-lg bg-bad-soft px-4 py-2.5 text-bad sm:max-w-2xl"
        >
          <span className="flex items-center gap-2">
            <TriangleAlert size={15} className="shrink-0" aria-hidden />
            No scheduler runs: nothing fires, and nothing is added up. Start one:
          </span>
          <Snippet text="jobforge scheduler" />
        </div>
      )}
      <dl className="grid grid-cols-2 gap-px overflow-hidden rounded-lg border border-line bg-line lg:grid-cols-4">
        {figures.map(([title, value, isBad]) => (
          <div key={title} className="flex flex-col-reverse justify-end bg-surface px-4 py-3">
            <dt className="text-muted">{title}</dt>
            <dd
              className={`num font-semibold text-2xl leading-8 tracking-tight ${isBad ? "text-bad" : ""}`}
            >
              {value}
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}

function late(seconds: number): string {
  return seconds < 1 ? "on time" : `${duration(seconds * 1000)} late`;
}

const TASKS: Record<string, string> = {
  statistics: "Adds up what ended, twice a minute",
  partitions: "Makes partitions of the history ahead, hourly",
  retention: "Clears away what is old, hourly",
};

function Upkeep({ state }: { state: SchedulerState }) {
  if (state.upkeep.length === 0) return null;
  return (
    <Panel title="Upkeep">
      <ul className="py-1.5">
        {state.upkeep.map((each) => (
          <li key={each.task} className="flex h-8 items-center justify-between gap-3 px-4">
            <span className="min-w-0 truncate">
              <span className="font-medium">{each.task}</span>{" "}
              <span className="text-muted">{TASKS[each.task]}</span>
            </span>
            <span className="num shrink-0 text-muted">{relative(-each.age_s * 1000)}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

const WORDS: Record<Standstill["kind"], { title: string; path: string }> = {
  overdue: { title: "Schedule is late", path: "/triggers" },
  faulty: { title: "Trigger was disabled", path: "/triggers" },
  event: { title: "Events wait", path: "/events" },
  operation: { title: "Operation stands still", path: "/operations" },
  webhook: { title: "Endpoint was disabled", path: "/webhooks" },
  unserved: { title: "No worker serves", path: "/jobs" },
};

function Troubles({ rows }: { rows: Standstill[] }) {
  const { data } = useQuery(tenants());
  const slugs = new Map((data?.items ?? []).map((each) => [each.id, each.slug ?? each.id]));
  const columns: Column<Standstill>[] = [
    { title: "What", cell: (row) => WORDS[row.kind].title },
    {
      title: "Which",
      isMain: true,
      cell: (row) => (
        <span className="flex min-w-0 flex-col">
          <span className="truncate font-medium">{row.subject}</span>
          <span className="truncate text-muted text-xs" title={row.detail}>
            {row.kind === "unserved" ? `queue ${row.detail}` : row.detail}
          </span>
        </span>
      ),
    },
    {
      title: "Tenant",
      cell: (row) =>
        row.tenant_id === null ? (
          <span className="text-faint">any</span>
        ) : (
          <a
            href={tenantHref(slugs.get(row.tenant_id) ?? row.tenant_id, WORDS[row.kind].path)}
            className="text-accent hover:underline"
          >
            {slugs.get(row.tenant_id) ?? row.tenant_id.slice(0, 8)}
          </a>
        ),
    },
    { title: "Since", align: "right", cell: (row) => <Ago at={row.since} /> },
  ];
  return (
    <Panel title="What does not go on by itself">
      {rows.length === 0 ? (
        <p className="px-4 py-3 text-muted">
          Nothing: schedules fire on time, events are dispatched, and every job that waits has a
          worker.
        </p>
      ) : (
        <Table
          label="What does not go on"
          columns={columns}
          rows={rows}
          idOf={(row) => `${row.kind} ${row.tenant_id} ${row.subject} ${row.detail}`}
        />
      )}
    </Panel>
  );
}
