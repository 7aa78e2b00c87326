/** When each job of a workflow waited and ran: a bar for each, on one axis. */

import type { NodeInfo } from "@/api/schema";
import { LOOKS } from "@/jobs/states";
import { State } from "@/parts/state";
import { duration, useNow } from "@/parts/time";

const MOST = 500;
const FILLS: Record<string, string> = {
  succeeded: "bg-ok",
  running: "bg-run",
  canceling: "bg-warn",
  dead: "bg-bad",
  canceled: "bg-strong",
  scheduled: "bg-plan",
};

interface Props {
  nodes: NodeInfo[];
  from: string;
  to: string | null;
  chosen: string | undefined;
  onChoose: (node: string) => void;
}

export function Gantt({ nodes, from, to, chosen, onChoose }: Props) {
  const now = useNow();
  const start = new Date(from).getTime();
  const times = nodes.map((node) => new Date(node.finished_at ?? 0).getTime());
  const end = to === null ? now : Math.max(new Date(to).getTime(), ...times);
  const whole = Math.max(1, end - start);
  const shown = nodes.slice(0, MOST);
  const at = (moment: string) => (100 * (new Date(moment).getTime() - start)) / whole;
  return (
    <div className="overflow-x-auto">
      <div className="min-w-[20rem] px-4 pt-2 pb-3">
        <div className="flex text-faint text-xs">
          <span className="w-28 shrink-0 sm:w-56">Node</span>
          {[0, 0.25, 0.5, 0.75].map((share) => (
            <span key={share} className="num flex-1 border-line border-l pl-1">
              {share === 0 ? "0" : duration(whole * share)}
            </span>
          ))}
        </div>
        <ol>
          {shown.map((node) => (
            <li key={node.node}>
              <button
                type="button"
                aria-pressed={node.node === chosen}
                title={wordsOf(node, now)}
                onClick={() => onChoose(node.node)}
                className={`flex h-7 w-full items-center rounded text-left hover:bg-hover ${node.node === chosen ? "bg-accent-soft" : ""}`}
              >
                <span className="flex w-28 shrink-0 items-center sm:w-56 gap-2 pr-3">
                  <State name={node.state} isQuiet />
                  <span className="truncate">{node.node}</span>
                </span>
                <span className="relative h-full flex-1 border-line border-l">
                  {node.started_at && (
                    <span
                      className={`absolute inset-y-2 min-w-[3px] rounded-sm ${FILLS[node.state] ?? "bg-muted"}`}
                      style={{
                        left: `${at(node.started_at)}%`,
                        width: `${Math.max(0, at(node.finished_at ?? new Date(end).toISOString()) - at(node.started_at))}%`,
                      }}
                    />
                  )}
                </span>
                <span className="sr-only">{wordsOf(node, now)}</span>
              </button>
            </li>
          ))}
        </ol>
        {nodes.length > MOST && (
          <p className="pt-2 text-faint">The first {MOST} are drawn. The table has them all.</p>
        )}
      </div>
    </div>
  );
}

function wordsOf(node: NodeInfo, now: number): string {
  const label = LOOKS[node.state]?.label ?? node.state;
  if (!node.started_at) return `${label}, not started`;
  const end = node.finished_at ? new Date(node.finished_at).getTime() : now;
  return `${label}, ran ${duration(end - new Date(node.started_at).getTime())}`;
}
