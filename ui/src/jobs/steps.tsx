/** The stored steps of a job, and its current wait. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { CircleCheck, Clock, Hourglass } from "lucide-react";
import { printShort } from "@/api/json";
import { steps } from "@/api/queries";
import type { StoredStep } from "@/api/schema";
import { Id } from "@/parts/copy";
import { Panel } from "@/parts/page";
import { Ago } from "@/parts/time";

const LOOKS = {
  done: { icon: CircleCheck, color: "text-ok", label: "Done" },
  waiting: { icon: Hourglass, color: "text-plan", label: "Waiting" },
  timed_out: { icon: Clock, color: "text-warn", label: "Timed out" },
};

/** Renders nothing for jobs without steps, which are most jobs. */
export function Steps({ id }: { id: string }) {
  const { data } = useQuery(steps(id));
  if (!data || data.items.length === 0) return null;
  return (
    <Panel title="Steps">
      <ol className="py-2">
        {data.items.map((step) => (
          <Step key={`${step.kind} ${step.name} ${step.index}`} step={step} />
        ))}
      </ol>
    </Panel>
  );
}

function Step({ step }: { step: StoredStep }) {
  const look = LOOKS[step.state as keyof typeof LOOKS] ?? LOOKS.done;
  const Icon = look.icon;
  return (
    <li className="flex flex-wrap items-baseline gap-x-3 px-4 py-1">
      <Icon
        size={14}
        className={`shrink-0 translate-y-0.5 ${look.color}`}
        aria-label={look.label}
      />
      <span className="font-medium">
        {step.name}
        {step.index > 0 && <span className="text-faint"> #{step.index + 1}</span>}
      </span>
      {step.kind !== "step" && <span className="text-muted">{step.kind.replaceAll("_", " ")}</span>}
      {step.state === "waiting" && step.until && (
        <span className="text-plan">
          wait ends <Ago at={step.until} />
        </span>
      )}
      {step.match && Object.keys(step.match).length > 0 && (
        <code className="font-mono text-faint text-xs">{printShort(step.match)}</code>
      )}
      {step.jobs?.slice(0, 5).map((job) => (
        <Link key={job} to="/jobs/$id" params={{ id: job }} className="text-accent hover:underline">
          <Id id={job} />
        </Link>
      ))}
      {step.result !== null && (
        <code
          className="min-w-0 max-w-full truncate font-mono text-faint text-xs"
          title={printShort(step.result)}
        >
          {printShort(step.result)}
        </code>
      )}
      <span className="ml-auto text-faint text-xs">
        <Ago at={step.at} />
      </span>
    </li>
  );
}
