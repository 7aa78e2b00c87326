/** Nodes of a workflow on a line of time: when each waited, ran and ended. */

import type { NodeInfo } from "@/api/schema";
import { State } from "@/parts/state";
import { duration, useNow } from "@/parts/time";

const COLOURS: Record<string, string> = {
  succeeded: "bg-ok",
  running: "bg-run",
  canceling: "bg-warn",
  dead: "bg-bad",
  canceled: "bg-faint",
};
const MOST = 500;

interface Props {
  nodes: NodeInfo[];
  chosen: string | undefined;
  onChoose: (node: string) => void;
}

export function Gantt({ nodes, chosen, onChoose }: Props) {
  const now = useNow();
  const time = (at: string | null, otherwise: number) => (at ? new Date(at).getTime() : otherwise);
  const start = Math.min(...nodes.map((each) => time(each.created_at, now)));
  const end = Math.max(...nodes.map((each) => time(each.finished_at, each.started_at ? now : 0)));
  const whole = Math.max(1, end - start);
  const shown = [...nodes]
    .sort((one, other) => time(one.started_at, now) - time(other.started_at, now))
    .slice(0, MOST);
  return (
    <div className="flex flex-col py-2">
      {shown.map((node) => {
        const from = time(node.started_at, now);
        const to = time(node.finished_at, now);
        return (
          <button
            key={node.node}
            type="button"
            onClick={() => onChoose(node.node)}
            className={`flex h-8 items-center gap-3 px-4 text-left hover:bg-hover ${chosen === node.node ? "bg-accent-soft" : ""}`}
          >
            <span className="flex w-40 shrink-0 items-center gap-2 truncate">
              <State name={node.state} isQuiet />
              <span className="truncate">{node.node}</span>
            </span>
            <span className="relative h-3 min-w-0 flex-1 rounded bg-raised">
              {node.started_at && (
                <span
                  className={`absolute inset-y-0 min-w-0.5 rounded ${COLOURS[node.state] ?? "bg-faint"}`}
                  style={{
                    left: `${((from - start) / whole) * 100}%`,
                    width: `${((to - from) / whole) * 100}%`,
                  }}
                />
              )}
            </span>
            <span className="num w-20 shrink-0 text-right text-muted text-xs">
              {node.started_at ? duration(to - from) : "waits"}
            </span>
          </button>
        );
      })}
      {nodes.length > MOST && (
        <p className="px-4 py-2 text-faint">and {nodes.length - MOST} more: see the table</p>
      )}
    </div>
  );
}
