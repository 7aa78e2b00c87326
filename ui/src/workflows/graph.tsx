/** The graph of a workflow. Loaded on demand, because the graph library is large. */

import dagre from "@dagrejs/dagre";
import {
  ControlButton,
  Controls,
  type Edge,
  Handle,
  type Node,
  Position,
  ReactFlow,
  useReactFlow,
  useStore,
} from "@xyflow/react";
import "@xyflow/react/dist/base.css";
import { LocateFixed } from "lucide-react";
import { useEffect, useMemo, useState } from "react";
import type { WorkflowDetail } from "@/api/schema";
import { LOOKS } from "@/jobs/states";
import { State } from "@/parts/state";
import { useNarrow } from "@/parts/use-narrow";
import { type Box, countsOf, foldGraph, type Shape, stateOf } from "@/workflows/folding";
import { countsInWords, Segments } from "@/workflows/progress";

const WIDTH = 176;
const HEIGHT = 56;
const KINDS = { box: BoxView };
const FIT = { maxZoom: 1, padding: 0.08 };

interface Props {
  detail: WorkflowDetail;
  chosen: string | undefined;
  onChoose: (id: string) => void;
}

interface BoxData extends Record<string, unknown> {
  box: Box;
  isChosen: boolean;
  isVertical: boolean;
  onChoose: (id: string) => void;
}

type BoxNode = Node<BoxData, "box">;

export function Graph({ detail, chosen, onChoose }: Props) {
  const shape = useMemo(() => foldGraph(detail), [detail]);
  // The layout does not depend on states, so that nodes keep their position while the workflow
  // runs.
  const outline = `${shape.boxes.map((box) => box.id).join("\n")}\n\n${shape.edges.join("\n")}`;
  const isVertical = useNarrow();
  const places = useMemo(() => layout(shape, isVertical), [outline, isVertical]);
  const nodes: BoxNode[] = shape.boxes.map((box) => ({
    id: box.id,
    type: "box",
    position: places.get(box.id) ?? { x: 0, y: 0 },
    width: WIDTH,
    height: HEIGHT,
    style: { pointerEvents: "all" },
    data: { box, isChosen: box.id === chosen, isVertical, onChoose },
  }));
  const states = new Map(shape.boxes.map((box) => [box.id, stateOf(box.nodes)]));
  const edges: Edge[] = shape.edges.map(([source, target]) => ({
    id: `${source}\n${target}`,
    source,
    target,
    focusable: false,
    animated: states.get(source) === "running",
    style: {
      stroke: states.get(source) === "succeeded" ? "var(--ok)" : "var(--strong)",
      strokeWidth: 1.5,
    },
  }));
  return (
    <ReactFlow<BoxNode>
      key={outline + isVertical}
      nodes={nodes}
      edges={edges}
      nodeTypes={KINDS}
      fitView
      fitViewOptions={FIT}
      minZoom={0.1}
      maxZoom={1.5}
      nodesDraggable={false}
      nodesConnectable={false}
      nodesFocusable={false}
      elementsSelectable={false}
      preventScrolling={false}
      zoomOnScroll={false}
      proOptions={{ hideAttribution: true }}
    >
      <FitOnResize />
      <Controls
        orientation="horizontal"
        showInteractive={false}
        className="overflow-hidden rounded-md border border-line bg-surface [&_button:hover]:bg-hover [&_button]:flex [&_button]:size-7 [&_button]:items-center [&_button]:justify-center [&_svg]:size-3 [&_svg]:fill-muted"
      >
        <Follow
          running={shape.boxes.map((box) => box.id).filter((id) => states.get(id) === "running")}
        />
      </Controls>
    </ReactFlow>
  );
}

/** Fit the graph into view when a panel opens next to it. */
function FitOnResize() {
  const { fitView } = useReactFlow();
  const width = useStore((state) => state.width);
  useEffect(() => {
    if (width > 0) void fitView(FIT);
  }, [width, fitView]);
  return null;
}

/** Keep running nodes in view while following is on. */
function Follow({ running }: { running: string[] }) {
  const { fitView } = useReactFlow();
  const [follows, setFollows] = useState(false);
  const ids = running.join("\n");
  useEffect(() => {
    if (follows && ids !== "")
      void fitView({ ...FIT, padding: 0.4, nodes: ids.split("\n").map((id) => ({ id })) });
  }, [follows, ids, fitView]);
  if (ids === "" && !follows) return null;
  return (
    <ControlButton
      aria-label="Follow running nodes"
      title="Follow running nodes"
      aria-pressed={follows}
      className={follows ? "bg-accent-soft" : ""}
      onClick={() => setFollows(!follows)}
    >
      <LocateFixed aria-hidden className="fill-none! text-muted" />
    </ControlButton>
  );
}

function BoxView({ data: { box, isChosen, isVertical, onChoose } }: { data: BoxData }) {
  const state = stateOf(box.nodes);
  const isMany = box.nodes.length > 1;
  const counts = countsOf(box.nodes);
  return (
    <>
      <Handle
        type="target"
        position={isVertical ? Position.Top : Position.Left}
        className="invisible"
      />
      <button
        type="button"
        data-node={box.id}
        aria-pressed={isChosen}
        aria-label={`${titleOf(box)}, ${isMany ? countsInWords(counts) : (LOOKS[state]?.label ?? state)}`}
        onClick={() => onChoose(box.id)}
        className={`nodrag nopan flex h-full w-full flex-col justify-center gap-0.5 rounded-lg border bg-surface px-3 text-left shadow-sm hover:border-accent ${isChosen ? "border-accent ring-1 ring-accent" : state === "dead" ? "border-bad" : "border-strong"} ${isMany ? "shadow-[3px_3px_0_-1px_var(--surface),3px_3px_0_0_var(--strong)]" : ""}`}
      >
        <span className="flex w-full items-center justify-between gap-2">
          <span className="truncate font-medium">{titleOf(box)}</span>
          <State name={state} isQuiet />
        </span>
        {isMany ? (
          <span className="block w-full py-1">
            <Segments counts={counts} size={box.nodes.length} />
          </span>
        ) : (
          <span className="truncate text-faint text-xs">{subtitleOf(box)}</span>
        )}
      </button>
      <Handle
        type="source"
        position={isVertical ? Position.Bottom : Position.Right}
        className="invisible"
      />
    </>
  );
}

function titleOf(box: Box): string {
  const [first] = box.nodes;
  if (box.nodes.length === 1) return first?.node ?? "";
  return `${box.nodes.length} × ${first?.definition ?? "jobs"}`;
}

function subtitleOf(box: Box): string {
  const [node] = box.nodes;
  const isRetried = (node?.attempt ?? 0) > 1;
  return `${node?.definition ?? "deleted by retention"}${isRetried ? ` · attempt ${node?.attempt}` : ""}`;
}

function layout({ boxes, edges }: Shape, isVertical: boolean) {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({ rankdir: isVertical ? "TB" : "LR", nodesep: 16, ranksep: 40 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const box of boxes) graph.setNode(box.id, { width: WIDTH, height: HEIGHT });
  for (const [from, to] of edges) graph.setEdge(from, to);
  dagre.layout(graph);
  return new Map(
    boxes.map((box) => {
      const { x, y } = graph.node(box.id);
      return [box.id, { x: x - WIDTH / 2, y: y - HEIGHT / 2 }];
    }),
  );
}
