/**
 * The schedulers: which processes fire schedules, dispatch events and run maintenance, and their
 * delays.
 */

import { useQuery } from "@tanstack/react-query";
import { useSearch } from "@tanstack/react-router";
import { TriangleAlert } from "lucide-react";
import { database, tenants } from "@/api/queries";
import type { MissedFiring, SchedulerState, SchedulerTask, StuckItem } from "@/api/schema";
import { tenantHref } from "@/config";
import { short } from "@/jobs/short-count";
import { Choice } from "@/parts/choice";
import { shortId } from "@/parts/copy";
import { Failure, Skeleton, Snippet } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { type Column, Table } from "@/parts/table";
import { Ago, duration, relative } from "@/parts/time";
import { Outcome } from "@/triggers/outcome";

const SILENT_S = 120;
const LATE_S = 60;

export function Page() {
  const query = useQuery({ ...database(), refetchInterval: 5_000 });
  const { data: known } = useQuery(tenants());
  if (query.isPending) return <Skeleton rows={8} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  const { scheduler, problems, missed_firings: missed } = query.data;
  const slugs = new Map((known?.items ?? []).map((each) => [each.id, each.slug ?? each.id]));
  return (
    <Frame
      title="Scheduler"
      lead="Every worker with a database connection includes a scheduler. Only one acts at a time, so nothing runs twice."
    >
      <SchedulerStatus state={scheduler} />
      <SchedulerTurns state={scheduler} />
      <Troubles rows={problems} slugs={slugs} />
      <Misses rows={missed} slugs={slugs} />
    </Frame>
  );
}

/** When a scheduler was last active: schedulers aggregate the statistics twice a minute. */
function lastActiveAt(state: SchedulerState): number | null {
  const ages = state.maintenance.map((each) => each.age_s);
  return ages.length === 0 ? null : Math.min(...ages);
}

function SchedulerStatus({ state }: { state: SchedulerState }) {
  const heard = lastActiveAt(state);
  const isSilent = heard === null || heard > SILENT_S;
  const figures: [string, string, boolean][] = [
    ["Last scheduler activity", heard === null ? "never" : relative(-heard * 1000), isSilent],
    ["Schedules", formatDelay(state.schedule_lag_s), state.schedule_lag_s > LATE_S],
    [
      `Events, ${short(state.pending_events)} waiting`,
      formatDelay(state.event_lag_s),
      state.event_lag_s > LATE_S,
    ],
    ["Invalid triggers", short(state.faulty_triggers), state.faulty_triggers > 0],
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
            No scheduler is running: triggers do not fire, and statistics are not updated. Start
            one:
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

function formatDelay(seconds: number): string {
  return seconds < 1 ? "on time" : `${duration(seconds * 1000)} late`;
}

const TASKS: Record<string, string> = {
  statistics: "Aggregates finished attempts, twice a minute",
  partitions: "Creates upcoming history partitions, hourly",
  retention: "Deletes data past its retention period, hourly",
};

const TASK_COLUMNS: Column<SchedulerTask>[] = [
  {
    title: "Task",
    isMain: true,
    cell: (row) => (
      <span className="flex min-w-0 flex-col md:block">
        <span className="font-medium">{row.task}</span>{" "}
        <span className="truncate text-muted">{TASKS[row.task]}</span>
      </span>
    ),
  },
  { title: "Leader", cell: (row) => <span className="font-mono text-xs">{row.by}</span> },
  {
    title: "For",
    isWide: true,
    align: "right",
    cell: (row) => (
      <span title="No other process has run the task in this time.">
        {duration(row.held_s * 1000)}
      </span>
    ),
  },
  { title: "Last run", align: "right", cell: (row) => relative(-row.age_s * 1000) },
];

/** Schedulers have no permanent leader: the first one that is free runs a task. */
function SchedulerTurns({ state }: { state: SchedulerState }) {
  if (state.maintenance.length === 0) return null;
  return (
    <Panel title="Maintenance tasks">
      <Table
        label="Maintenance tasks"
        columns={TASK_COLUMNS}
        rows={state.maintenance}
        idOf={(row) => row.task}
      />
    </Panel>
  );
}

/** Slugs by tenant ID. */
type Slugs = Map<string, string>;

function TenantLink({ id, slugs, path }: { id: string; slugs: Slugs; path: string }) {
  return (
    <a href={tenantHref(slugs.get(id) ?? id, path)} className="text-accent hover:underline">
      {slugs.get(id) ?? shortId(id)}
    </a>
  );
}

const OUTCOMES = [
  ["all", "All"],
  ["failed", "Failed"],
  ["skipped", "Skipped"],
] as const;

function Misses({ rows, slugs }: { rows: MissedFiring[]; slugs: Slugs }) {
  const { outcome = "all" } = useSearch({ strict: false }) as { outcome?: string };
  const shown = rows.filter((row) => outcome === "all" || row.outcome === outcome);
  const columns: Column<MissedFiring>[] = [
    { title: "Outcome", cell: (row) => <Outcome name={row.outcome} /> },
    {
      title: "Schedule",
      isMain: true,
      cell: (row) => (
        <span className="flex min-w-0 flex-col">
          <a
            href={tenantHref(
              slugs.get(row.tenant_id) ?? row.tenant_id,
              `/triggers/${row.trigger_id}`,
            )}
            className="truncate font-medium hover:text-accent"
          >
            {row.label}
          </a>
          <span className="truncate text-muted text-xs" title={row.reason}>
            {row.reason}
          </span>
        </span>
      ),
    },
    {
      title: "Tenant",
      cell: (row) => <TenantLink id={row.tenant_id} slugs={slugs} path="/triggers" />,
    },
    { title: "Scheduled for", align: "right", cell: (row) => <Ago at={row.fire_at} /> },
    { title: "Recorded", isWide: true, align: "right", cell: (row) => <Ago at={row.at} /> },
  ];
  return (
    <Panel
      title="Missed runs"
      actions={<Choice label="Outcome" name="outcome" choices={OUTCOMES} active={outcome} />}
    >
      {shown.length === 0 ? (
        <p className="px-4 py-3 text-muted">
          {rows.length === 0
            ? "No missed runs: every firing of a schedule created its job."
            : `No ${outcome} runs among the latest ${rows.length} missed runs.`}
        </p>
      ) : (
        <Table
          label="Missed runs"
          columns={columns}
          rows={shown}
          idOf={(row) => `${row.trigger_id} ${row.fire_at}`}
        />
      )}
    </Panel>
  );
}

const WORDS: Record<StuckItem["kind"], { title: string; path: string }> = {
  overdue: { title: "Schedule overdue", path: "/triggers" },
  faulty: { title: "Trigger disabled", path: "/triggers" },
  event: { title: "Events waiting", path: "/events" },
  operation: { title: "Operation stalled", path: "/operations" },
  webhook: { title: "Webhook disabled", path: "/webhooks" },
  unserved: { title: "No worker available", path: "/jobs" },
  blocked: { title: "Job blocked without a cause", path: "/jobs" },
};

function Troubles({ rows, slugs }: { rows: StuckItem[]; slugs: Slugs }) {
  const columns: Column<StuckItem>[] = [
    { title: "Problem", cell: (row) => WORDS[row.kind].title },
    {
      title: "Subject",
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
          <TenantLink id={row.tenant_id} slugs={slugs} path={WORDS[row.kind].path} />
        ),
    },
    { title: "Since", align: "right", cell: (row) => <Ago at={row.since} /> },
  ];
  return (
    <Panel title="Needs attention">
      {rows.length === 0 ? (
        <p className="px-4 py-3 text-muted">
          No problems: schedules fire on time, events are dispatched, and every waiting job has a
          worker.
        </p>
      ) : (
        <Table
          label="Needs attention"
          columns={columns}
          rows={rows}
          idOf={(row) => `${row.kind} ${row.tenant_id} ${row.subject} ${row.detail}`}
        />
      )}
    </Panel>
  );
}
