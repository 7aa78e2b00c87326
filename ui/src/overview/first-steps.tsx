/** Three first steps that are checked off automatically; hidden when all are done. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Check, Circle } from "lucide-react";
import { definition, definitions, summary } from "@/api/queries";
import type { SummaryLine } from "@/api/schema";
import { tenant } from "@/config";
import { Snippet } from "@/parts/feedback";
import { Panel } from "@/parts/page";

const WEEK_S = 7 * 86_400;

export function FirstSteps({ lines }: { lines: SummaryLine[] }) {
  const known = useQuery(definitions());
  const week = useQuery(summary(WEEK_S));
  const first = known.data?.items.find((each) => !each.key.startsWith("connector."));
  const whole = useQuery({ ...definition(first?.key ?? ""), enabled: first !== undefined });
  if (!known.data || !week.data) return null;
  const all = [...lines, ...week.data.items];
  const named = tenant === null ? "" : ` --tenant ${tenant}`;
  const steps: [boolean, string, string | null][] = [
    [known.data.items.length > 0, "Start a worker for your app", "jobforge worker app.py"],
    [
      all.length > 0,
      "Create a job",
      whole.data && needsNothing(whole.data.parameters)
        ? `jobforge enqueue ${whole.data.key}${named} --wait`
        : null,
    ],
    [
      all.some((line) => line.state === "succeeded"),
      "Run a job successfully",
      "jobforge jobs explain ID",
    ],
  ];
  if (steps.every(([isDone]) => isDone)) return null;
  const next = steps.findIndex(([isDone]) => !isDone);
  return (
    <Panel title="First steps">
      <ol className="flex flex-col gap-2 p-4">
        {steps.map(([isDone, title, code], index) => (
          <li key={title} className="flex flex-col">
            <span className={`flex items-center gap-2 ${isDone ? "text-ok" : ""}`}>
              {isDone ? (
                <Check size={15} aria-label="Done:" />
              ) : (
                <Circle size={15} className="text-faint" aria-label="To do:" />
              )}
              {title}
            </span>
            {index === next && code !== null && <Snippet text={code} />}
            {index === next && index === 1 && first && (
              <span className="mt-2 text-muted">
                {code === null ? "You can" : "Or"}{" "}
                <Link
                  to="/definitions/$key"
                  params={{ key: first.key }}
                  className="text-accent hover:underline"
                >
                  run {first.key} in the dashboard
                </Link>
                .
              </span>
            )}
          </li>
        ))}
      </ol>
    </Panel>
  );
}

/**
 * Whether a job runs without parameters. Others are not offered, because the server would reject
 * them.
 */
function needsNothing(parameters: { required?: unknown } | null | undefined): boolean {
  const required = parameters?.required;
  return !Array.isArray(required) || required.length === 0;
}
