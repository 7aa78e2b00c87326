/** What a job comes from and what waits for it, and the steps it has stored. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { printShort } from "@/api/json";
import { steps } from "@/api/queries";
import type { JobHistory, Relative } from "@/api/schema";
import { Panel } from "@/parts/page";
import { State } from "@/parts/state";
import { Ago } from "@/parts/time";

export function Relatives({ history }: { history: JobHistory }) {
  const { parents = [], children = [], workflow } = history;
  if (parents.length === 0 && children.length === 0 && !workflow) return null;
  return (
    <Panel title="Relatives">
      <div className="flex flex-col gap-3 px-4 py-3">
        {workflow && (
          <p>
            Of the {workflow.kind}{" "}
            <Link
              to="/workflows/$id"
              params={{ id: workflow.id }}
              search={workflow.node ? { node: workflow.node } : {}}
              className="text-accent underline"
            >
              {workflow.name ?? workflow.id}
            </Link>
            {workflow.node && <span className="text-muted"> as {workflow.node}</span>}
          </p>
        )}
        <Some title="Waits for" jobs={parents} />
        <Some title="Waited for by" jobs={children} />
      </div>
    </Panel>
  );
}

function Some({ title, jobs }: { title: string; jobs: Relative[] }) {
  if (jobs.length === 0) return null;
  return (
    <div>
      <h3 className="mb-1 text-faint text-xs">{title}</h3>
      <ul className="flex flex-col gap-1">
        {jobs.map((job) => (
          <li key={job.job_id} className="flex items-center justify-between gap-3">
            <Link
              to="/jobs/$id"
              params={{ id: job.job_id }}
              className="min-w-0 truncate font-medium hover:text-accent"
            >
              {job.definition ?? job.job_id}
            </Link>
            <State name={job.state} />
          </li>
        ))}
      </ul>
    </div>
  );
}

export function Steps({ id }: { id: string }) {
  const { data } = useQuery(steps(id));
  if (!data || data.items.length === 0) return null;
  return (
    <Panel title="Steps">
      <ol className="py-2">
        {data.items.map((step) => (
          <li
            key={`${step.kind}${step.name}${step.index}`}
            className="flex items-baseline gap-3 px-4 py-1"
          >
            <span className="w-20 shrink-0 text-faint text-xs">
              <Ago at={step.at} />
            </span>
            <span className="shrink-0 font-medium">
              {step.name}
              {step.index > 0 && <span className="text-faint"> {step.index + 1}</span>}
            </span>
            <span className="shrink-0 text-muted">
              {step.kind === "step" ? step.state : `${step.kind}, ${step.state}`}
              {step.until && (
                <>
                  {" "}
                  until <Ago at={step.until} />
                </>
              )}
            </span>
            <span
              className="min-w-0 truncate font-mono text-faint text-xs"
              title={printShort(step.result)}
            >
              {step.result === null ? "" : printShort(step.result)}
            </span>
          </li>
        ))}
      </ol>
    </Panel>
  );
}
