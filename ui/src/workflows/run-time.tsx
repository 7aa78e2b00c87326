import type { NodeInfo } from "@/api/schema";
import { Span } from "@/parts/time";

/** The run time of a node's job. A job that waits again is not running. */
export function RunTime({ node }: { node: NodeInfo }) {
  const isKnown = node.finished_at !== null || node.state === "running";
  return <Span from={isKnown ? node.started_at : null} to={node.finished_at} />;
}
