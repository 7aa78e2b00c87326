/** The Gantt chart of a workflow: when each job waited and ran. */

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
  const marks = marksOf(whole);
  const shown = nodes.slice(0, MOST);
  const at = (moment: string) => (100 * (new Date(moment).getTime() - start)) / whole;
  return (
    <div className="overflow-x-auto">
      <div className="min-w-[20rem] px-4 pt-2 pb-3">
        <div className="flex border-line border-b pb-1 text-faint text-xs">
          <span className="w-28 shrink-0 sm:w-56">Node</span>
          <span className="relative flex-1">
            {marks.map((mark) => (
              <span
                key={mark}
                className="num absolute whitespace-nowrap pl-1"
                style={{ left: `${(100 * mark) / whole}%` }}
              >
                {mark === 0 ? "0" : duration(mark)}
              </span>
            ))}
          </span>
        </div>
        <ol>
          {shown.map((node) => (
            <li key={node.node}>
              <button
                type="button"
                aria-pressed={node.node === chosen}
                title={describeNode(node, now)}
                onClick={() => onChoose(node.node)}
                className={`flex h-7 w-full items-center rounded text-left hover:bg-hover ${node.node === chosen ? "bg-accent-soft" : ""}`}
              >
                <span className="flex w-28 shrink-0 items-center sm:w-56 gap-2 pr-3">
                  <State name={node.state} isQuiet />
                  <span className="truncate">{node.node}</span>
                </span>
                <span className="relative h-full flex-1">
                  {marks.map((mark) => (
                    <span
                      key={mark}
                      className="absolute inset-y-0 border-line border-l"
                      style={{ left: `${(100 * mark) / whole}%` }}
                    />
                  ))}
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
                <span className="sr-only">{describeNode(node, now)}</span>
              </button>
            </li>
          ))}
        </ol>
        {nodes.length > MOST && (
          <p className="pt-2 text-faint">
            The first {MOST} nodes are shown. The Table tab lists all nodes.
          </p>
        )}
      </div>
    </div>
  );
}

const MARKS = 5;
const STEPS = [
  1, 2, 5, 10, 25, 50, 100, 250, 500, 1e3, 2e3, 5e3, 1e4, 1.5e4, 3e4, 6e4, 1.2e5, 3e5, 6e5, 9e5,
  1.8e6, 3.6e6, 7.2e6, 2.16e7, 4.32e7,
];
const DAY_MS = 8.64e7;

/** The labels of the axis: round numbers, few enough for a phone. */
function marksOf(whole: number): number[] {
  const least = whole / MARKS;
  const step = STEPS.find((each) => each >= least) ?? DAY_MS * Math.ceil(least / DAY_MS);
  const count = Math.ceil(whole / step - 0.3); // leave room for the label
  return Array.from({ length: Math.max(1, count) }, (_, index) => index * step);
}

function describeNode(node: NodeInfo, now: number): string {
  const label = LOOKS[node.state]?.label ?? node.state;
  if (!node.started_at) return `${label}, not started`;
  const end = node.finished_at ? new Date(node.finished_at).getTime() : now;
  return `${label}, ran ${duration(end - new Date(node.started_at).getTime())}`;
}
