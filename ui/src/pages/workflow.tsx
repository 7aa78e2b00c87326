/** One workflow: its graph, its Gantt chart, and the table of its nodes. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Ban, RotateCcw } from "lucide-react";
import { lazy, type ReactNode, Suspense, useState } from "react";
import { call } from "@/api/client";
import { client, workflow as workflowQuery } from "@/api/queries";
import type { NodeInfo, WorkflowDetail } from "@/api/schema";
import { short } from "@/jobs/short-count";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { CopyButton } from "@/parts/copy";
import { Detail } from "@/parts/detail";
import { Facts } from "@/parts/fact-list";
import { Failure, Skeleton } from "@/parts/feedback";
import { JsonView } from "@/parts/json";
import { Panel } from "@/parts/page";
import { plural } from "@/parts/plural";
import { State } from "@/parts/state";
import { type Column, Table } from "@/parts/table";
import { Tabs } from "@/parts/tabs";
import { Ago } from "@/parts/time";
import { toast } from "@/parts/toasts";
import { useNarrow } from "@/parts/use-narrow";
import { useSession } from "@/session";
import { isTyping, useKeys } from "@/shell/keyboard";
import { CancelWorkflow } from "@/workflows/cancel";
import { factsOf } from "@/workflows/facts";
import { extentOf, foldGraph, parentsOf, type Shape } from "@/workflows/folding";
import { Gantt } from "@/workflows/gantt";
import { NodePanel } from "@/workflows/node-panel";
import { countEnded, countsInWords, Segments, sum, WORKFLOW_ENDED } from "@/workflows/progress";
import { RunTime } from "@/workflows/run-time";

const Graph = lazy(() => import("@/workflows/graph").then(({ Graph }) => ({ default: Graph })));

export function Page() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useQuery(workflowQuery(id));
  if (query.isPending) return <Skeleton rows={12} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return <View detail={query.data} />;
}

function View({ detail }: { detail: WorkflowDetail }) {
  const { workflow } = detail;
  const search = useSearch({ strict: false }) as { view?: string; node?: string };
  const navigate = useNavigate();
  const { may } = useSession();
  const [open, setOpen] = useState<"cancel" | { from: string | null } | null>(null);
  const canAct = may("workflows", "write");
  const hasEnded = WORKFLOW_ENDED.has(workflow.state);
  const view = search.view ?? "graph";
  const counts = workflow.counts ?? {};
  // Including the nodes of inner workflows.
  const size = Math.max(workflow.size, sum(counts));
  const shape = foldGraph(detail);
  const { boxes } = shape;
  const parents = parentsOf(detail);
  const chosen = nodesOf(detail, search.node);

  function choose(node: string | undefined) {
    void navigate({ to: ".", search: { ...search, node }, replace: true, resetScroll: false });
  }
  useKeys((event) => {
    if (isTyping(event.target) || event.metaKey || event.ctrlKey || event.altKey) return;
    if (event.key === "Escape" && search.node) choose(undefined);
    const step = { j: 1, k: -1 }[event.key];
    if (step === undefined || view === "table") return;
    const at = boxes.findIndex((box) => box.id === search.node);
    const next = boxes[Math.min(boxes.length - 1, Math.max(0, at + step))];
    if (next) choose(next.id);
  });

  return (
    <Detail
      back={{ to: "/workflows", label: "Workflows" }}
      title={workflow.name ?? "Workflow"}
      standing={<State name={workflow.state} />}
      lead={
        <>
          <code className="truncate font-mono text-faint text-xs">{workflow.id}</code>
          <CopyButton text={workflow.id} label="Copy ID" />
        </>
      }
      actions={
        canAct && (
          <>
            {hasEnded && workflow.state !== "succeeded" && (
              <Button look="primary" icon={RotateCcw} onClick={() => setOpen({ from: null })}>
                Retry…
              </Button>
            )}
            {!hasEnded && (
              <Button look="danger" icon={Ban} onClick={() => setOpen("cancel")}>
                Cancel
              </Button>
            )}
          </>
        )
      }
    >
      <div className="flex flex-col gap-1.5">
        <Segments counts={counts} size={size} />
        <p className="text-muted">
          <span className="num">
            {short(countEnded(counts))} of {short(size)}
          </span>{" "}
          jobs finished · {countsInWords(counts)}
          {workflow.parent_id && (
            <>
              {" · part of "}
              <Link
                to="/workflows/$id"
                params={{ id: workflow.parent_id }}
                className="text-accent hover:underline"
              >
                another workflow
              </Link>
            </>
          )}
        </p>
      </div>
      <Tabs
        label="View"
        name="view"
        active={view}
        tabs={[
          ["graph", "Graph"],
          ["gantt", "Gantt"],
          ["table", "Table"],
        ]}
      />
      <div
        className={`grid grid-cols-[minmax(0,1fr)] gap-4 ${view === "graph" ? "" : "items-start"} ${chosen.length > 0 ? "xl:grid-cols-[minmax(0,1fr)_340px]" : ""}`}
      >
        <Panel className="flex flex-col">
          {view === "gantt" ? (
            <Gantt
              nodes={detail.nodes}
              from={workflow.created_at}
              to={workflow.finished_at}
              chosen={search.node}
              onChoose={choose}
            />
          ) : view === "table" ? (
            <NodeTable detail={detail} parents={parents} onChoose={choose} />
          ) : (
            <GraphFrame shape={shape}>
              <Graph detail={detail} chosen={search.node} onChoose={choose} />
            </GraphFrame>
          )}
          {!detail.has_all_nodes && (
            <p className="border-line border-t px-4 py-2 text-warn">
              This workflow has more nodes. The first {short(detail.nodes.length)} are shown.
            </p>
          )}
        </Panel>
        {chosen.length > 0 && (
          <NodePanel
            nodes={chosen}
            parents={chosen.length === 1 ? (parents.get(chosen[0]?.node ?? "") ?? []) : []}
            onChoose={choose}
            onRetry={canAct && hasEnded ? (from) => setOpen({ from }) : undefined}
          />
        )}
      </div>
      <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-4 lg:grid-cols-2">
        <Panel title="Details">
          <Facts facts={factsOf(workflow)} />
        </Panel>
        <div className="flex min-w-0 flex-col gap-4">
          {workflow.input !== null && (
            <Panel title="Input">
              <JsonView label="Input" value={workflow.input} />
            </Panel>
          )}
          {Object.keys(detail.result).length > 0 && (
            <Panel title="Result">
              <JsonView label="Result" value={detail.result} />
            </Panel>
          )}
        </div>
      </div>
      {open === "cancel" && <CancelWorkflow row={workflow} onClose={() => setOpen(null)} />}
      {open !== null && open !== "cancel" && (
        <Retry id={workflow.id} from={open.from} onClose={() => setOpen(null)} />
      )}
    </Detail>
  );
}

/** As high as the graph needs, within limits. */
function GraphFrame({ shape, children }: { shape: Shape; children: ReactNode }) {
  const { breadth, length } = extentOf(shape);
  const rows = useNarrow() ? length : breadth;
  return (
    <div className="relative flex-1" style={{ minHeight: Math.min(560, 140 + 80 * rows) }}>
      <div className="absolute inset-0">
        <Suspense fallback={<Skeleton rows={6} />}>{children}</Suspense>
      </div>
    </div>
  );
}

function nodesOf(detail: WorkflowDetail, id: string | undefined): NodeInfo[] {
  if (id === undefined) return [];
  const node = detail.nodes.find((each) => each.node === id);
  return node ? [node] : (foldGraph(detail).boxes.find((box) => box.id === id)?.nodes ?? []);
}

interface TableProps {
  detail: WorkflowDetail;
  parents: Map<string, string[]>;
  onChoose: (node: string) => void;
}

function NodeTable({ detail, parents, onChoose }: TableProps) {
  const columns: Column<NodeInfo>[] = [
    { title: "State", cell: (row) => <State name={row.state} /> },
    {
      title: "Node",
      isMain: true,
      cell: (row) => (
        <button
          type="button"
          className="max-w-full truncate font-medium hover:text-accent"
          onClick={() => onChoose(row.node)}
        >
          {row.node}
        </button>
      ),
    },
    { title: "Definition", isWide: true, cell: (row) => row.definition ?? "–" },
    {
      title: "Runs after",
      isWide: true,
      cell: (row) => {
        const names = parents.get(row.node) ?? [];
        return (
          <span className="block max-w-48 truncate" title={names.join(", ")}>
            {names.length > 3 ? `${names.length} nodes` : names.join(", ") || "–"}
          </span>
        );
      },
    },
    { title: "Attempts", isWide: true, align: "right", cell: (row) => row.attempt ?? "–" },
    { title: "Started", isWide: true, cell: (row) => <Ago at={row.started_at} /> },
    { title: "Run time", align: "right", cell: (row) => <RunTime node={row} /> },
  ];
  return (
    <Table
      label="Nodes"
      columns={columns}
      rows={detail.nodes}
      idOf={(row) => row.node}
      onOpen={(row) => onChoose(row.node)}
    />
  );
}

function Retry({ id, from, onClose }: { id: string; from: string | null; onClose: () => void }) {
  return (
    <Confirm
      title={from === null ? "Retry this workflow?" : `Retry from ${from}?`}
      verb="Retry"
      onClose={onClose}
      act={async () => {
        const made = await call("post", "/api/v1/workflows/{workflow_id}/retry", {
          path: { workflow_id: id },
          body: { from },
        });
        toast(`${plural(made.jobs, "job")} created.`);
        await client.invalidateQueries({ queryKey: ["workflow"] });
      }}
    >
      <p className="text-muted">
        {from === null
          ? "Each node that did not succeed gets a new job. Nodes that succeeded do not run again."
          : "This node and all nodes after it get new jobs, including nodes that succeeded."}
      </p>
    </Confirm>
  );
}
