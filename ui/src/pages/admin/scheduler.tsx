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
  const { scheduler, troubles, misses } = query.data;
  const slugs = new Map((known?.items ?? []).map((each) => [each.id, each.slug ?? each.id]));
  return (
    <Frame
      title="Scheduler"
      lead="Any number may run, and every worker with a database carries one; one acts at a time, so nothing is made twice."
    >
      <SchedulerStatus state={scheduler} />
      <SchedulerTurns state={scheduler} />
      <Troubles rows={troubles} slugs={slugs} />
      <Misses rows={misses} slugs={slugs} />
    </Frame>
  );
}

/** When a scheduler was last active: schedulers aggregate the statistics twice a minute. */
function lastActiveAt(state: SchedulerState): number | null {
  const ages = state.upkeep.map((each) => each.age_s);
  return ages.length === 0 ? null : Math.min(...ages);
}

function SchedulerStatus({ state }: { state: SchedulerState }) {
  const heard = lastActiveAt(state);
  const isSilent = heard === null || heard > SILENT_S;
  const figures: [string, string, boolean][] = [
    ["A scheduler acted", heard === null ? "never" : relative(-heard * 1000), isSilent],
    ["Schedules", formatDelay(state.schedule_lag_s), state.schedule_lag_s > LATE_S],
    [
      `Events, ${short(state.pending_events)} waiting`,
      formatDelay(state.event_lag_s),
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

function formatDelay(seconds: number): string {
  return seconds < 1 ? "on time" : `${duration(seconds * 1000)} late`;
}

const TASKS: Record<string, string> = {
  statistics: "Adds up what ended, twice a minute",
  partitions: "Makes partitions of the history ahead, hourly",
  retention: "Clears away what is old, hourly",
};

const UPKEEP: Column<SchedulerTask>[] = [
  {
    title: "Upkeep",
    isMain: true,
    cell: (row) => (
      <span className="flex min-w-0 flex-col md:block">
        <span className="font-medium">{row.task}</span>{" "}
        <span className="truncate text-muted">{TASKS[row.task]}</span>
      </span>
    ),
  },
  { title: "By", cell: (row) => <span className="font-mono text-xs">{row.by}</span> },
  {
    title: "Alone for",
    isWide: true,
    align: "right",
    cell: (row) => <span title="nobody else has done it since">{duration(row.held_s * 1000)}</span>,
  },
  { title: "Last", align: "right", cell: (row) => relative(-row.age_s * 1000) },
];

/** Schedulers have no permanent leader: whichever comes first takes the next turn. */
function SchedulerTurns({ state }: { state: SchedulerState }) {
  if (state.upkeep.length === 0) return null;
  return (
    <Panel title="Who has the turns">
      <Table label="Upkeep" columns={UPKEEP} rows={state.upkeep} idOf={(row) => row.task} />
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
    { title: "For", align: "right", cell: (row) => <Ago at={row.fire_at} /> },
    { title: "Seen", isWide: true, align: "right", cell: (row) => <Ago at={row.at} /> },
  ];
  return (
    <Panel
      title="Times that made no job"
      actions={<Choice label="Outcome" name="outcome" choices={OUTCOMES} active={outcome} />}
    >
      {shown.length === 0 ? (
        <p className="px-4 py-3 text-muted">
          {rows.length === 0
            ? "None: of all schedules, every time has made its job."
            : `None of the latest ${rows.length} was ${outcome}.`}
        </p>
      ) : (
        <Table
          label="Times that made no job"
          columns={columns}
          rows={shown}
          idOf={(row) => `${row.trigger_id} ${row.fire_at}`}
        />
      )}
    </Panel>
  );
}

const WORDS: Record<StuckItem["kind"], { title: string; path: string }> = {
  overdue: { title: "Schedule is late", path: "/triggers" },
  faulty: { title: "Trigger was disabled", path: "/triggers" },
  event: { title: "Events wait", path: "/events" },
  operation: { title: "Operation stands still", path: "/operations" },
  webhook: { title: "Endpoint was disabled", path: "/webhooks" },
  unserved: { title: "No worker serves", path: "/jobs" },
  blocked: { title: "Job waits for nothing", path: "/jobs" },
};

function Troubles({ rows, slugs }: { rows: StuckItem[]; slugs: Slugs }) {
  const columns: Column<StuckItem>[] = [
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
          <TenantLink id={row.tenant_id} slugs={slugs} path={WORDS[row.kind].path} />
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
