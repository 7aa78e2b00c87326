/** Workflows: jobs that wait for each other, and how far each has come. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { workflows } from "@/api/queries";
import type { WorkflowInfo, WorkflowState } from "@/api/schema";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { State } from "@/parts/state";
import { type Column, Table } from "@/parts/table";
import { Tabs } from "@/parts/tabs";
import { Ago, Span } from "@/parts/time";

type Listed = Exclude<WorkflowState, "canceling">;
const STATES: Listed[] = ["running", "failed", "succeeded", "canceled"];
const COLOURS: Record<string, string> = {
  succeeded: "bg-ok",
  running: "bg-run",
  canceling: "bg-warn",
  dead: "bg-bad",
  failed: "bg-bad",
  canceled: "bg-faint",
};

const COLUMNS: Column<WorkflowInfo>[] = [
  { title: "State", cell: (row) => <State name={row.state} /> },
  {
    title: "Workflow",
    isMain: true,
    cell: (row) => (
      <Link
        to="/workflows/$id"
        params={{ id: row.id }}
        className="block truncate font-medium hover:text-accent"
      >
        {row.name ?? "batch"}
      </Link>
    ),
  },
  { title: "Progress", cell: (row) => <Progress row={row} /> },
  {
    title: "Took",
    isWide: true,
    cell: (row) => <Span from={row.created_at} to={row.finished_at} />,
  },
  { title: "Made", cell: (row) => <Ago at={row.created_at} /> },
];

export function Page() {
  const { state } = useSearch({ strict: false }) as { state?: Listed };
  const navigate = useNavigate();
  const query = useQuery({ ...workflows(state ? { state } : {}), refetchInterval: 5_000 });
  return (
    <Frame
      title="Workflows"
      lead="Jobs that wait for each other: fan out, fan in, one after the other."
    >
      <Tabs
        label="States"
        active={state ?? ""}
        onChoose={(name) => void navigate({ to: "/workflows", search: { state: name } })}
        tabs={[
          { name: "", label: "All" },
          ...STATES.map((name) => ({ name, label: name[0]?.toUpperCase() + name.slice(1) })),
        ]}
      />
      {query.isPending ? (
        <Skeleton />
      ) : query.isError ? (
        <Failure error={query.error} onRetry={() => void query.refetch()} />
      ) : query.data.items.length === 0 ? (
        <Empty
          title={state ? "None in this state" : "No workflows yet"}
          code={state ? undefined : "jobforge workflows --help"}
        >
          {state ? null : "A workflow is a set of jobs with edges between them, made all at once:"}
        </Empty>
      ) : (
        <Panel>
          <Table
            label="Workflows"
            columns={COLUMNS}
            rows={query.data.items}
            idOf={(row) => row.id}
            onOpen={(row) => void navigate({ to: "/workflows/$id", params: { id: row.id } })}
          />
        </Panel>
      )}
    </Frame>
  );
}

export function Progress({ row }: { row: WorkflowInfo }) {
  const counts = (row.counts ?? {}) as Record<string, number>;
  const ended = (counts.succeeded ?? 0) + (counts.canceled ?? 0) + (counts.dead ?? 0);
  return (
    <span className="flex items-center gap-2">
      <span className="flex h-2 w-32 overflow-hidden rounded-full bg-raised">
        {Object.entries(counts).map(([state, jobs]) => (
          <span
            key={state}
            title={`${jobs} ${state}`}
            className={COLOURS[state] ?? ""}
            style={{ width: `${(100 * jobs) / Math.max(1, row.size)}%` }}
          />
        ))}
      </span>
      <span className="num text-muted text-xs">
        {ended} of {row.size}
      </span>
    </span>
  );
}
