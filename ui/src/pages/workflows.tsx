/** Workflows and batches, newest first, with their progress. */

import { useInfiniteQuery } from "@tanstack/react-query";
import { Link, useNavigate, useSearch } from "@tanstack/react-router";
import { Package, Workflow } from "lucide-react";
import { batches, type WorkflowQuery, workflows } from "@/api/queries";
import type { WorkflowInfo } from "@/api/schema";
import { shortId } from "@/parts/copy";
import { Empty, Failure, Skeleton } from "@/parts/feedback";
import { Input, Select } from "@/parts/form";
import { LoadOlder } from "@/parts/load-older";
import { Page as Frame, Panel } from "@/parts/page";
import { State } from "@/parts/state";
import { type Column, Table } from "@/parts/table";
import { Tabs } from "@/parts/tabs";
import { Ago, Span } from "@/parts/time";
import { Progress } from "@/workflows/progress";

interface Row extends WorkflowInfo {
  isBatch: boolean;
}

const COLUMNS: Column<Row>[] = [
  {
    title: "State",
    cell: (row) => (
      <>
        <span className="hidden sm:block">
          <State name={row.state} />
        </span>
        <span className="sm:hidden">
          <State name={row.state} isQuiet />
        </span>
      </>
    ),
  },
  { title: "Name", isMain: true, cell: (row) => <Name row={row} /> },
  { title: "Progress", cell: (row) => <Progress row={row} isBatch={row.isBatch} /> },
  {
    title: "Duration",
    isWide: true,
    align: "right",
    cell: (row) => <Span from={row.created_at} to={row.finished_at} />,
  },
  {
    title: "Created by",
    isWide: true,
    cell: (row) => <span className="font-mono text-xs">{row.created_by}</span>,
  },
  { title: "Started", isWide: true, cell: (row) => <Ago at={row.created_at} /> },
];

const CODE = `with jf.workflow("nightly") as wf:
    orders = extract.node("orders")
    users = extract.node("users")
    load.using(after=[orders, users]).node()`;

export function Page() {
  const { kind, state, name } = useSearch({ strict: false }) as Record<string, string | undefined>;
  const navigate = useNavigate();
  const filter: WorkflowQuery = { name, state: state as WorkflowQuery["state"] };
  const ofWorkflows = useInfiniteQuery({ ...workflows(filter), enabled: kind !== "batch" });
  const ofBatches = useInfiniteQuery({ ...batches(filter), enabled: kind !== "workflow" });
  const asked = [
    ...(kind === "batch" ? [] : [ofWorkflows]),
    ...(kind === "workflow" ? [] : [ofBatches]),
  ];
  const failed = asked.find((query) => query.isError);
  const rows = inOrder(asked.map((query) => rowsOf(query.data?.pages, query === ofBatches)));
  const more = asked.filter((query) => query.hasNextPage);

  function look(changed: Record<string, string | undefined>) {
    void navigate({ to: "/workflows", search: { kind, state, name, ...changed }, replace: true });
  }

  return (
    <Frame
      title="Workflows"
      lead="Jobs that depend on each other, and batches of independent jobs."
    >
      <div className="flex flex-wrap items-end gap-x-4 gap-y-2">
        <div className="min-w-0 grow">
          <Tabs
            label="Kind"
            name="kind"
            active={kind ?? "all"}
            tabs={[
              ["all", "All"],
              ["workflow", "Workflows"],
              ["batch", "Batches"],
            ]}
          />
        </div>
        <div className="flex gap-2">
          <Input
            key={name}
            data-filter
            aria-label="Name"
            placeholder="Exact name"
            className="!w-40"
            defaultValue={name ?? ""}
            onKeyDown={(event) => {
              if (event.key === "Enter") look({ name: event.currentTarget.value || undefined });
            }}
            onBlur={(event) => look({ name: event.target.value || undefined })}
          />
          <Select
            aria-label="State"
            className="!w-36"
            value={state ?? ""}
            onChange={(event) => look({ state: event.target.value || undefined })}
          >
            <option value="">Any state</option>
            <option value="running">Running</option>
            <option value="succeeded">Succeeded</option>
            <option value="failed">Failed</option>
            <option value="canceled">Canceled</option>
          </Select>
        </div>
      </div>
      {failed ? (
        <Failure error={failed.error} onRetry={() => void failed.refetch()} />
      ) : asked.some((query) => query.isPending) ? (
        <Skeleton />
      ) : rows.length === 0 ? (
        <EmptyState isFiltered={Boolean(name || state)} />
      ) : (
        <Panel>
          <Table
            label="Workflows and batches"
            columns={COLUMNS}
            rows={rows}
            idOf={(row) => row.id}
            onOpen={(row) => void navigate({ to: addressOf(row), params: { id: row.id } })}
          />
          <LoadOlder
            of={{
              hasNextPage: more.length > 0,
              isFetchingNextPage: more.some((query) => query.isFetchingNextPage),
              fetchNextPage: () => Promise.all(more.map((query) => query.fetchNextPage())),
            }}
          />
        </Panel>
      )}
    </Frame>
  );
}

function EmptyState({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No matching workflows">Remove a filter.</Empty>;
  return (
    <Empty title="No workflows yet" code={CODE}>
      Create a workflow in code to run jobs that depend on each other:
    </Empty>
  );
}

function Name({ row }: { row: Row }) {
  const Icon = row.isBatch ? Package : Workflow;
  return (
    <span className="flex min-w-0 items-center gap-2">
      <Icon
        size={14}
        className="shrink-0 text-faint"
        aria-label={row.isBatch ? "Batch" : "Workflow"}
      />
      <Link
        to={addressOf(row)}
        params={{ id: row.id }}
        className="truncate font-medium hover:text-accent"
      >
        {row.name ?? shortId(row.id)}
      </Link>
      {row.is_open && <span className="shrink-0 text-plan text-xs">open</span>}
    </span>
  );
}

function addressOf(row: Row): "/batches/$id" | "/workflows/$id" {
  return row.isBatch ? "/batches/$id" : "/workflows/$id";
}

interface Rows {
  rows: Row[];
  isWhole: boolean;
}

function rowsOf(
  pages: { items: WorkflowInfo[]; next: string | null }[] | undefined,
  isBatch: boolean,
): Rows {
  return {
    rows: pages?.flatMap((page) => page.items.map((row) => ({ ...row, isBatch }))) ?? [],
    isWhole: pages?.at(-1)?.next === null,
  };
}

/**
 * Merge two paged lists. Entries older than the end of either list wait, because unloaded entries
 * may belong between them.
 */
function inOrder(lists: Rows[]): Row[] {
  const ends = lists
    .filter((list) => !list.isWhole)
    .map((list) => list.rows.at(-1)?.created_at ?? "");
  return lists
    .flatMap((list) => list.rows)
    .filter((row) => ends.every((end) => row.created_at >= end))
    .sort((one, other) => other.created_at.localeCompare(one.created_at));
}
