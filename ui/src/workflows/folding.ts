/** Folds the graph of a workflow: many similar nodes of one definition become one box. */

import type { NodeInfo, WorkflowDetail } from "@/api/schema";
import type { Counts } from "@/workflows/progress";

const MOST_ALIKE = 20;

/** One box of the graph: a node, or several nodes of a definition with the same edges. */
export interface Box {
  id: string;
  nodes: NodeInfo[];
  rank: number;
}

export interface Shape {
  boxes: Box[];
  edges: [string, string][];
}

export function foldGraph({ nodes, edges }: Pick<WorkflowDetail, "nodes" | "edges">): Shape {
  const ranks = ranksOf(nodes, edges as [string, string][]);
  const alike = new Map<string, NodeInfo[]>();
  for (const node of nodes) {
    const key = [folderOf(node.node), node.definition, ranks.get(node.node)].join(" ");
    alike.set(key, [...(alike.get(key) ?? []), node]);
  }
  const boxes: Box[] = [];
  const boxOf = new Map<string, string>();
  for (const [key, members] of alike) {
    const rank = ranks.get(members[0]?.node ?? "") ?? 0;
    const made: Box[] =
      members.length > MOST_ALIKE
        ? [{ id: `* ${key}`, nodes: members, rank }]
        : members.map((node) => ({ id: node.node, nodes: [node], rank }));
    for (const box of made) {
      boxes.push(box);
      for (const node of box.nodes) boxOf.set(node.node, box.id);
    }
  }
  const joined = new Map<string, [string, string]>();
  for (const [from, to] of edges as [string, string][]) {
    const [start, end] = [boxOf.get(from), boxOf.get(to)];
    if (start && end && start !== end) joined.set(`${start}\n${end}`, [start, end]);
  }
  return { boxes: boxes.sort((one, other) => one.rank - other.rank), edges: [...joined.values()] };
}

/** The maximum number of boxes next to each other, and in sequence. */
export function extentOf({ boxes }: Shape): { breadth: number; length: number } {
  const ranks = new Map<number, number>();
  for (const box of boxes) ranks.set(box.rank, (ranks.get(box.rank) ?? 0) + 1);
  return { breadth: Math.max(1, ...ranks.values()), length: Math.max(1, ranks.size) };
}

/** Return the length of the longest path to each node. */
function ranksOf(nodes: NodeInfo[], edges: [string, string][]): Map<string, number> {
  const children = new Map<string, string[]>();
  const open = new Map(nodes.map((node) => [node.node, 0]));
  for (const [from, to] of edges) {
    children.set(from, [...(children.get(from) ?? []), to]);
    open.set(to, (open.get(to) ?? 0) + 1);
  }
  const ranks = new Map(nodes.map((node) => [node.node, 0]));
  const ready = [...open].filter(([, count]) => count === 0).map(([name]) => name);
  for (let name = ready.pop(); name !== undefined; name = ready.pop()) {
    for (const child of children.get(name) ?? []) {
      ranks.set(child, Math.max(ranks.get(child) ?? 0, (ranks.get(name) ?? 0) + 1));
      const left = (open.get(child) ?? 0) - 1;
      open.set(child, left);
      if (left === 0) ready.push(child);
    }
  }
  return ranks;
}

/** Return the inner workflow that contains the node. */
function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/") + 1);
}

export function countsOf(nodes: NodeInfo[]): Counts {
  const counts: Counts = {};
  for (const node of nodes) counts[node.state] = (counts[node.state] ?? 0) + 1;
  return counts;
}

const URGENCY = ["dead", "running", "canceling", "scheduled", "queued", "blocked", "canceled"];

/** Return the most severe state of the nodes: one dead job decides. */
export function stateOf(nodes: NodeInfo[]): string {
  const states = new Set(nodes.map((node) => node.state));
  return URGENCY.find((state) => states.has(state)) ?? nodes[0]?.state ?? "succeeded";
}

export function parentsOf(detail: WorkflowDetail): Map<string, string[]> {
  const parents = new Map<string, string[]>();
  for (const [from, to] of detail.edges as [string, string][]) {
    parents.set(to, [...(parents.get(to) ?? []), from]);
  }
  return parents;
}
