/** The panel of a node's job, or of several jobs with the failed ones first. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { RotateCcw, X } from "lucide-react";
import { explanation } from "@/api/queries";
import type { NodeInfo } from "@/api/schema";
import { ENDED } from "@/jobs/states";
import { Button } from "@/parts/button";
import { Id } from "@/parts/copy";
import { Facts } from "@/parts/fact-list";
import { Panel } from "@/parts/page";
import { State } from "@/parts/state";
import { Ago, EngineText } from "@/parts/time";
import { countsOf } from "@/workflows/folding";
import { countsInWords, Segments } from "@/workflows/progress";
import { RunTime } from "@/workflows/run-time";

interface Props {
  nodes: NodeInfo[];
  parents: string[];
  onChoose: (node: string | undefined) => void;
  /** Retries this node and all nodes after it. Undefined if the user may not. */
  onRetry?: ((node: string) => void) | undefined;
}

export function NodePanel({ nodes, parents, onChoose, onRetry }: Props) {
  const [node] = nodes;
  if (node === undefined) return null;
  const close = (
    <Button look="quiet" icon={X} label="Close panel" onClick={() => onChoose(undefined)} />
  );
  if (nodes.length > 1) {
    return (
      <Panel title={`${nodes.length} × ${node.definition}`} actions={close}>
        <NodeList nodes={nodes} onChoose={onChoose} />
      </Panel>
    );
  }
  return (
    <Panel title={<span className="break-all">{node.node}</span>} actions={close}>
      <Facts
        facts={[
          ["State", <State key="state" name={node.state} />],
          [
            "Job",
            node.state === "forgotten" ? (
              "deleted by retention"
            ) : (
              <Link
                key="job"
                to="/jobs/$id"
                params={{ id: node.job_id }}
                className="text-accent hover:underline"
              >
                <Id id={node.job_id} />
              </Link>
            ),
          ],
          ["Definition", node.definition ? `${node.definition}@${node.version}` : "–"],
          ["Queue", node.queue ?? "–"],
          ["Attempts", `${node.attempt ?? 0} of ${node.max_attempts ?? "–"}`],
          ["Started", <Ago key="started" at={node.started_at} />],
          ["Run time", <RunTime key="run" node={node} />],
          [
            "Runs after",
            parents.length > 0 ? <NodeNames names={parents} onChoose={onChoose} /> : "none",
          ],
        ]}
      />
      {node.error && <Fault error={node.error} />}
      {!ENDED.has(node.state) && node.state !== "running" && <Explanation id={node.job_id} />}
      {onRetry && (
        <div className="border-line border-t px-4 py-3">
          <Button icon={RotateCcw} onClick={() => onRetry(node.node)}>
            Retry from here…
          </Button>
        </div>
      )}
    </Panel>
  );
}

function NodeNames({ names, onChoose }: { names: string[]; onChoose: (node: string) => void }) {
  return (
    <span className="flex flex-wrap gap-x-2">
      {names.slice(0, 10).map((name) => (
        <button
          key={name}
          type="button"
          className="break-all text-left text-accent hover:underline"
          onClick={() => onChoose(name)}
        >
          {name}
        </button>
      ))}
      {names.length > 10 && <span className="text-faint">and {names.length - 10} more</span>}
    </span>
  );
}

function Fault({ error }: { error: Record<string, unknown> }) {
  return (
    <div className="border-line border-t px-4 py-3">
      <strong className="font-semibold text-bad">{String(error.type ?? "Error")}</strong>
      <p className="break-words text-muted">{String(error.message ?? "")}</p>
    </div>
  );
}

function Explanation({ id }: { id: string }) {
  const { data } = useQuery({ ...explanation(id), refetchInterval: 3_000 });
  const [reason] = data?.items ?? [];
  if (!reason) return null;
  return (
    <div className="border-line border-t px-4 py-3">
      <strong className="font-semibold">
        <EngineText text={reason.message} />
      </strong>
      {reason.remedy && <p className="text-muted">{reason.remedy}</p>}
    </div>
  );
}

const ORDER = ["dead", "canceled", "running", "scheduled", "queued", "blocked", "succeeded"];
const MOST = 100;

function NodeList({ nodes, onChoose }: { nodes: NodeInfo[]; onChoose: (node: string) => void }) {
  const counts = countsOf(nodes);
  const sorted = nodes.toSorted(
    (one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state),
  );
  return (
    <>
      <div className="flex flex-col gap-1.5 border-line border-b px-4 py-3">
        <Segments counts={counts} size={nodes.length} />
        <p className="text-muted">{countsInWords(counts)}</p>
      </div>
      <ul className="max-h-96 overflow-y-auto py-1">
        {sorted.slice(0, MOST).map((node) => (
          <li key={node.node}>
            <button
              type="button"
              onClick={() => onChoose(node.node)}
              className="flex h-8 w-full items-center gap-2 px-4 text-left hover:bg-hover"
            >
              <State name={node.state} isQuiet />
              <span className="min-w-0 flex-1 truncate">{node.node}</span>
              <span className="text-faint text-xs">
                <RunTime node={node} />
              </span>
            </button>
          </li>
        ))}
      </ul>
      {nodes.length > MOST && (
        <p className="border-line border-t px-4 py-2 text-faint">The Table tab lists all nodes.</p>
      )}
    </>
  );
}
