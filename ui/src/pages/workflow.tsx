/** One workflow: as a graph, on a time line, or as a table. */

import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Ban, ChevronLeft, RotateCcw } from "lucide-react";
import { lazy, Suspense, useState } from "react";
import { call } from "@/api/client";
import { client, workflow as workflowQuery } from "@/api/queries";
import type { NodeInfo, WorkflowDetail } from "@/api/schema";
import { errorLine } from "@/jobs/columns";
import { ENDED } from "@/jobs/states";
import { Progress } from "@/pages/workflows";
import { Button } from "@/parts/button";
import { Confirm } from "@/parts/confirm";
import { CopyButton, Id } from "@/parts/copy";
import { Failure, Skeleton } from "@/parts/feedback";
import { JsonView } from "@/parts/json";
import { Panel, useTitle } from "@/parts/page";
import { State } from "@/parts/state";
import { type Column, Table } from "@/parts/table";
import { Tabs } from "@/parts/tabs";
import { Ago, Span } from "@/parts/time";
import { toast } from "@/parts/toasts";
import { useSession } from "@/session";
import { Gantt } from "@/workflows/gantt";

const Graph = lazy(() => import("@/workflows/graph").then(({ Graph }) => ({ default: Graph })));
const VIEWS = [
  { name: "graph", label: "Graph" },
  { name: "time", label: "Time" },
  { name: "table", label: "Table" },
];

export function Page() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useQuery({ ...workflowQuery(id), refetchInterval: 2_000 });
  useTitle(query.data?.workflow.name ?? "Workflow");
  if (query.isPending) return <Skeleton rows={10} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return <View detail={query.data} />;
}

function View({ detail }: { detail: WorkflowDetail }) {
  const { workflow, nodes } = detail;
  const { view = "graph", node } = useSearch({ strict: false }) as { view?: string; node?: string };
  const navigate = useNavigate();
  const show = (search: Record<string, string | undefined>) =>
    void navigate({
      to: "/workflows/$id",
      params: { id: workflow.id },
      search: { view, node, ...search },
      replace: true,
    });
  const chosen = nodes.find((each) => each.node === node);
  return (
    <div className="mx-auto flex w-full max-w-[1400px] flex-col gap-4 p-4 lg:px-6 lg:py-5">
      <Head detail={detail} />
      <Tabs label="Views" tabs={VIEWS} active={view} onChoose={(name) => show({ view: name })} />
      <div
        className={`grid grid-cols-[minmax(0,1fr)] gap-4 ${chosen ? "xl:grid-cols-[minmax(0,1fr)_340px]" : ""}`}
      >
        <Panel className="overflow-hidden">
          {view === "graph" && (
            <Suspense fallback={<Skeleton rows={8} />}>
              <Graph detail={detail} chosen={node} onChoose={(name) => show({ node: name })} />
            </Suspense>
          )}
          {view === "time" && (
            <Gantt nodes={nodes} chosen={node} onChoose={(name) => show({ node: name })} />
          )}
          {view === "table" && (
            <Nodes detail={detail} onChoose={(row) => show({ node: row.node })} />
          )}
        </Panel>
        {chosen && <NodePanel node={chosen} detail={detail} />}
      </div>
      {!detail.is_whole && (
        <p className="text-warn">There are more nodes than these {nodes.length}.</p>
      )}
      {workflow.state === "succeeded" && Object.keys(detail.result).length > 0 && (
        <Panel title="What its last nodes returned">
          <JsonView label="Result" value={detail.result} />
        </Panel>
      )}
    </div>
  );
}

function Head({ detail }: { detail: WorkflowDetail }) {
  const { workflow } = detail;
  const { may } = useSession();
  const [open, setOpen] = useState<"cancel" | "retry" | null>(null);
  const canAct = may("workflows", "write");
  const isOver = workflow.state !== "running" && workflow.state !== "canceling";
  return (
    <header className="flex flex-wrap items-start justify-between gap-3">
      <div className="min-w-0">
        <Link
          to="/workflows"
          className="mb-1 inline-flex items-center gap-0.5 text-faint text-xs hover:text-text"
        >
          <ChevronLeft size={12} aria-hidden />
          Workflows
        </Link>
        <div className="flex flex-wrap items-center gap-3">
          <h1 className="font-semibold text-lg leading-7 tracking-tight">
            {workflow.name ?? "batch"}
          </h1>
          <span data-workflow={workflow.state}>
            <State name={workflow.state} />
          </span>
          <Progress row={workflow} />
        </div>
        <div className="flex min-w-0 items-center gap-1 text-faint">
          <code className="truncate font-mono text-xs">{workflow.id}</code>
          <CopyButton text={workflow.id} label="Copy the id" />
          <span className="text-xs">
            made <Ago at={workflow.created_at} />, {workflow.finished_at ? "took" : "runs for"}{" "}
            <Span from={workflow.created_at} to={workflow.finished_at} />
          </span>
        </div>
      </div>
      {canAct && (
        <div className="flex gap-2">
          {(workflow.state === "failed" || workflow.state === "canceled") && (
            <Button look="primary" icon={RotateCcw} onClick={() => setOpen("retry")}>
              Retry
            </Button>
          )}
          {!isOver && (
            <Button look="danger" icon={Ban} onClick={() => setOpen("cancel")}>
              Cancel
            </Button>
          )}
        </div>
      )}
      {open === "cancel" && (
        <Confirm
          title="Cancel this workflow?"
          verb="Cancel the workflow"
          isDangerous
          onClose={() => setOpen(null)}
          act={async () => {
            await call("post", "/api/v1/workflows/{workflow_id}/cancel", {
              path: { workflow_id: workflow.id },
            });
            await refresh(workflow.id);
          }}
        >
          <p className="text-muted">
            What waits will not run, what runs is asked to stop. What has ended stays.
          </p>
        </Confirm>
      )}
      {open === "retry" && <RetryFrom id={workflow.id} onClose={() => setOpen(null)} />}
    </header>
  );
}

function RetryFrom({ id, from, onClose }: { id: string; from?: string; onClose: () => void }) {
  return (
    <Confirm
      title={from ? `Retry from ${from}` : "Retry this workflow"}
      verb="Retry"
      onClose={onClose}
      act={async () => {
        const { jobs } = await call("post", "/api/v1/workflows/{workflow_id}/retry", {
          path: { workflow_id: id },
          body: from ? { from } : {},
        });
        toast(`${jobs} jobs run again.`);
        await refresh(id);
      }}
    >
      <p className="text-muted">
        {from
          ? "This node and all that come after it run again. What went before stays as it is."
          : "What did not succeed runs again, and what waited for it. What succeeded stays."}
      </p>
    </Confirm>
  );
}

function refresh(id: string): Promise<void> {
  return client.invalidateQueries({ queryKey: ["workflow", id] });
}

function NodePanel({ node, detail }: { node: NodeInfo; detail: WorkflowDetail }) {
  const { may } = useSession();
  const [isRetrying, setRetrying] = useState(false);
  const byName = new Map(detail.nodes.map((each) => [each.node, each]));
  const waits = detail.edges
    .filter(([, child]) => child === node.node)
    .map(([parent]) => byName.get(String(parent)))
    .filter((each) => each !== undefined && each.state !== "succeeded");
  return (
    <Panel title={node.node}>
      <div className="flex flex-col gap-3 p-4">
        <State name={node.state} />
        {node.error && <p className="break-words text-bad">{errorLine(node.error)}</p>}
        {!ENDED.has(node.state) && waits.length > 0 && (
          <div>
            <h3 className="mb-1 text-faint text-xs">Waits for</h3>
            <ul className="flex flex-col gap-1">
              {waits.map((each) => (
                <li key={each?.node} className="flex justify-between gap-2">
                  <span className="truncate">{each?.node}</span>
                  <State name={each?.state ?? ""} />
                </li>
              ))}
            </ul>
          </div>
        )}
        <dl className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-6 gap-y-1.5">
          <dt className="text-faint">Job</dt>
          <dd>
            <Link
              to="/jobs/$id"
              params={{ id: node.job_id }}
              className="text-accent hover:underline"
            >
              <Id id={node.job_id} />
            </Link>
          </dd>
          <dt className="text-faint">Definition</dt>
          <dd className="break-words">{node.definition ?? "–"}</dd>
          <dt className="text-faint">Attempts</dt>
          <dd className="num">
            {node.attempt ?? 0} of {node.max_attempts ?? "–"}
          </dd>
          <dt className="text-faint">Started</dt>
          <dd>
            <Ago at={node.started_at} />
          </dd>
          <dt className="text-faint">Took</dt>
          <dd>
            <Span from={node.started_at} to={node.finished_at} />
          </dd>
        </dl>
        {may("workflows", "write") && ENDED.has(node.state) && (
          <Button icon={RotateCcw} className="self-start" onClick={() => setRetrying(true)}>
            Retry from here
          </Button>
        )}
      </div>
      {isRetrying && (
        <RetryFrom id={detail.workflow.id} from={node.node} onClose={() => setRetrying(false)} />
      )}
    </Panel>
  );
}

function Nodes({
  detail,
  onChoose,
}: {
  detail: WorkflowDetail;
  onChoose: (row: NodeInfo) => void;
}) {
  const parents = new Map<string, string[]>();
  for (const [parent, child] of detail.edges) {
    parents.set(String(child), [...(parents.get(String(child)) ?? []), String(parent)]);
  }
  const columns: Column<NodeInfo>[] = [
    { title: "State", cell: (row) => <State name={row.state} /> },
    {
      title: "Node",
      isMain: true,
      cell: (row) => (
        <button
          type="button"
          onClick={() => onChoose(row)}
          className="block max-w-full truncate font-medium hover:text-accent"
        >
          {row.node}
        </button>
      ),
    },
    {
      title: "After",
      isWide: true,
      cell: (row) => (
        <span className="block max-w-60 truncate">
          {(parents.get(row.node) ?? []).join(", ") || "–"}
        </span>
      ),
    },
    { title: "Definition", isWide: true, cell: (row) => row.definition ?? "–" },
    { title: "Started", isWide: true, cell: (row) => <Ago at={row.started_at} /> },
    { title: "Took", cell: (row) => <Span from={row.started_at} to={row.finished_at} /> },
  ];
  return <Table label="Nodes" columns={columns} rows={detail.nodes} idOf={(row) => row.node} />;
}
