/** Three steps that tick by themselves; gone when all are done. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Check, Circle } from "lucide-react";
import { definitions, summary } from "@/api/queries";
import type { SummaryLine } from "@/api/schema";
import { tenant } from "@/config";
import { Snippet } from "@/parts/feedback";
import { Panel } from "@/parts/page";

const WEEK_S = 7 * 86_400;

export function FirstSteps({ lines }: { lines: SummaryLine[] }) {
  const known = useQuery(definitions());
  const week = useQuery(summary(WEEK_S));
  if (!known.data || !week.data) return null;
  const all = [...lines, ...week.data.items];
  const first = known.data.items.find((each) => !each.key.startsWith("connector."));
  const named = tenant === null ? "" : ` --tenant ${tenant}`;
  const steps: [boolean, string, string][] = [
    [known.data.items.length > 0, "A worker runs your app", "jobforge worker app.py"],
    [
      all.length > 0,
      "A job is made",
      `jobforge enqueue ${first?.key ?? "send_welcome"}${named} --wait`,
    ],
    [
      all.some((line) => line.state === "succeeded"),
      "A job has succeeded",
      "jobforge jobs explain <id>",
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
            {index === next && <Snippet text={code} />}
            {index === next && index === 1 && first && (
              <span className="mt-2 text-muted">
                Or{" "}
                <Link
                  to="/definitions/$key"
                  params={{ key: first.key }}
                  className="text-accent hover:underline"
                >
                  run {first.key} from here
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
