import { Link } from "@tanstack/react-router";
import type { WorkflowInfo } from "@/api/schema";
import type { Fact } from "@/parts/fact-list";
import { Ago, Span } from "@/parts/time";

const CALLBACKS: Record<string, string> = {
  on_success: "When it succeeds",
  on_failure: "When it fails",
  on_complete: "However it ends",
};

export function factsOf(row: WorkflowInfo): Fact[] {
  const facts: Fact[] = [
    ["Started", <Ago key="started" at={row.created_at} />],
    ["By", row.created_by],
    ["Took", <Span key="took" from={row.created_at} to={row.finished_at} />],
  ];
  if (row.finished_at) facts.push(["Ended", <Ago key="ended" at={row.finished_at} />]);
  if (row.correlation_id) {
    facts.push([
      "Correlation",
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
    facts.push([CALLBACKS[name] ?? name, `${definition ?? "a job"}${isMade ? ", made" : ""}`]);
  }
  return facts;
}
