import { Link } from "@tanstack/react-router";
import type { WorkflowInfo } from "@/api/schema";
import type { Fact } from "@/parts/fact-list";
import { Ago, Span } from "@/parts/time";

const CALLBACKS: Record<string, string> = {
  on_success: "On success",
  on_failure: "On failure",
  on_complete: "On completion",
};

export function factsOf(row: WorkflowInfo): Fact[] {
  const facts: Fact[] = [
    ["Started", <Ago key="started" at={row.created_at} />],
    ["Created by", row.created_by],
    ["Duration", <Span key="duration" from={row.created_at} to={row.finished_at} />],
  ];
  if (row.finished_at) facts.push(["Finished", <Ago key="finished" at={row.finished_at} />]);
  if (row.correlation_id) {
    facts.push([
      "Correlation ID",
      <Link
        key="correlation"
        to="/jobs"
        search={{ correlation_id: row.correlation_id }}
        className="break-all hover:text-accent hover:underline"
      >
        {row.correlation_id}
      </Link>,
    ]);
  }
  for (const [name, callback] of Object.entries(row.callbacks)) {
    const { definition } = callback as { definition?: string };
    const isMade = row.called.includes(name);
    facts.push([
      CALLBACKS[name] ?? name,
      `${definition ?? "a job"}${isMade ? " (job created)" : ""}`,
    ]);
  }
  return facts;
}
