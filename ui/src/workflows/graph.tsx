/** The graph of a workflow, from left to right. Nodes that are alike are drawn as one: 120 × resize. */

import "@xyflow/react/dist/style.css";
import dagre from "@dagrejs/dagre";
import { Background, Controls, Handle, type Node, Position, ReactFlow } from "@xyflow/react";
import { useMemo } from "react";
import type { NodeInfo, WorkflowDetail } from "@/api/schema";
import { LOOKS } from "@/jobs/states";
import { State } from "@/parts/state";
import { isDark } from "@/theme";

const WIDTH = 190;
const HEIGHT = 52;
const ALIKE = 5; // so many are drawn one by one

interface Box extends Record<string, unknown> {
  name: string;
  members: NodeInfo[];
  isChosen: boolean;
}

interface Props {
  detail: WorkflowDetail;
  chosen: string | undefined;
  onChoose: (node: string) => void;
}

export function Graph({ detail, chosen, onChoose }: Props) {
  const drawn = useMemo(() => layout(detail), [detail]);
  const nodes = drawn.nodes.map((node) => ({
    ...node,
    data: { ...node.data, isChosen: node.data.members.some((each) => each.node === chosen) },
  }));
  return (
    <div className="h-[60dvh] min-h-80">
      <ReactFlow
        nodes={nodes}
        edges={drawn.edges}
        nodeTypes={TYPES}
        colorMode={isDark() ? "dark" : "light"}
        fitView
        fitViewOptions={{ maxZoom: 1.1 }}
        minZoom={0.1}
        nodesDraggable={false}
        nodesConnectable={false}
        edgesFocusable={false}
        proOptions={{ hideAttribution: true }}
        aria-label="Graph of the workflow"
        onNodeClick={(_, node) => {
          const members = (node.data as Box).members;
          const worst = members.find((each) => each.state === "dead") ?? members[0];
          if (worst) onChoose(worst.node);
        }}
      >
        <Background gap={20} />
        <Controls showInteractive={false} />
      </ReactFlow>
    </div>
  );
}

const TYPES = { box: BoxView };

function BoxView({ data }: { data: Box }) {
  const [first] = data.members;
  const states = countStates(data.members);
  return (
    <div
      className={`flex h-[52px] w-[190px] flex-col justify-center rounded-lg border bg-surface px-3 text-left text-text ${data.isChosen ? "border-accent shadow-[0_0_0_1px_var(--accent)]" : "border-strong"}`}
    >
      <Handle type="target" position={Position.Left} className="!border-strong !bg-surface" />
      <span className="truncate font-medium text-sm">{data.name}</span>
      <span className="flex gap-2 text-xs">
        {data.members.length === 1 && first ? (
          <State name={first.state} />
        ) : (
          states.map(([state, count]) => (
            <span key={state} className={`num ${LOOKS[state]?.colour ?? ""}`}>
              {count} {LOOKS[state]?.label.toLowerCase() ?? state}
            </span>
          ))
        )}
      </span>
      <Handle type="source" position={Position.Right} className="!border-strong !bg-surface" />
    </div>
  );
}

function countStates(members: NodeInfo[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const each of members) counts.set(each.state, (counts.get(each.state) ?? 0) + 1);
  return [...counts].slice(0, 2);
}

function layout(detail: WorkflowDetail) {
  const groups = grouped(detail);
  const groupOf = new Map<string, string>();
  for (const [name, members] of groups) for (const each of members) groupOf.set(each.node, name);
  const pairs = new Set<string>();
  for (const [parent, child] of detail.edges) {
    const from = groupOf.get(String(parent));
    const to = groupOf.get(String(child));
    if (from && to && from !== to) pairs.add(JSON.stringify([from, to]));
  }
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 18, ranksep: 56 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of groups.keys()) graph.setNode(name, { width: WIDTH, height: HEIGHT });
  for (const pair of pairs) {
    const [from, to] = JSON.parse(pair) as [string, string];
    graph.setEdge(from, to);
  }
  dagre.layout(graph);
  const nodes = [...groups].map(([name, members]): Node<Box> => {
    const { x, y } = graph.node(name);
    return {
      id: name,
      type: "box",
      position: { x: x - WIDTH / 2, y: y - HEIGHT / 2 },
      data: { name, members, isChosen: false },
    };
  });
  const edges = [...pairs].map((pair) => {
    const [source, target] = JSON.parse(pair) as [string, string];
    const isWaiting = groups.get(target)?.some((each) => each.state === "blocked") ?? false;
    return { id: pair, source, target, animated: isWaiting };
  });
  return { nodes, edges };
}

/** Nodes of one definition with the same parents and children, when there are many. */
function grouped(detail: WorkflowDetail): Map<string, NodeInfo[]> {
  const parents = new Map<string, string[]>();
  const children = new Map<string, string[]>();
  for (const [parent, child] of detail.edges) {
    parents.set(String(child), [...(parents.get(String(child)) ?? []), String(parent)]);
    children.set(String(parent), [...(children.get(String(parent)) ?? []), String(child)]);
  }
  const alike = new Map<string, NodeInfo[]>();
  for (const node of detail.nodes) {
    const around = [parents.get(node.node) ?? [], children.get(node.node) ?? []];
    const key = JSON.stringify([node.definition, ...around.map((each) => [...each].sort())]);
    alike.set(key, [...(alike.get(key) ?? []), node]);
  }
  const groups = new Map<string, NodeInfo[]>();
  for (const members of alike.values()) {
    if (members.length <= ALIKE) for (const each of members) groups.set(each.node, [each]);
    else groups.set(`${members.length} × ${members[0]?.definition ?? "nodes"}`, members);
  }
  return groups;
}
