/** The parents and children of a job, and its workflow or batch. */

import { Link } from "@tanstack/react-router";
import { Package, Workflow } from "lucide-react";
import type { JobHistory, Relative } from "@/api/schema";
import { Id, shortId } from "@/parts/copy";
import { Panel } from "@/parts/page";
import { State } from "@/parts/state";

export function Relatives({ history }: { history: JobHistory }) {
  const { parents = [], children = [], workflow } = history;
  if (parents.length === 0 && children.length === 0 && !workflow) return null;
  return (
    <Panel title="Related jobs">
      <div className="flex flex-col gap-3 px-4 py-3">
        {workflow && <Membership workflow={workflow} />}
        <List title="Runs after" jobs={parents} />
        <List title="Runs before" jobs={children} />
      </div>
    </Panel>
  );
}

function Membership({ workflow }: { workflow: NonNullable<JobHistory["workflow"]> }) {
  const isBatch = workflow.kind === "batch";
  const Icon = isBatch ? Package : Workflow;
  return (
    <p className="flex min-w-0 items-center gap-2">
      <Icon size={14} className="shrink-0 text-faint" aria-hidden />
      <Link
        to={isBatch ? "/batches/$id" : "/workflows/$id"}
        params={{ id: workflow.id }}
        search={workflow.node && !isBatch ? { node: workflow.node } : {}}
        className="truncate text-accent hover:underline"
      >
        {workflow.name ?? shortId(workflow.id)}
      </Link>
      {workflow.node && <span className="truncate text-muted">as {workflow.node}</span>}
    </p>
  );
}

function List({ title, jobs }: { title: string; jobs: Relative[] }) {
  if (jobs.length === 0) return null;
  return (
    <div>
      <h3 className="text-faint text-xs">{title}</h3>
      <ul className="max-h-64 overflow-y-auto">
        {jobs.map((each) => (
          <li key={each.job_id} className="flex h-7 items-center gap-2">
            <State name={each.state} isQuiet />
            {each.definition === null ? (
              <span className="text-faint">deleted by retention</span>
            ) : (
              <Link
                to="/jobs/$id"
                params={{ id: each.job_id }}
                className="min-w-0 flex-1 truncate hover:text-accent"
              >
                {each.definition}
              </Link>
            )}
            <span className="text-faint">
              <Id id={each.job_id} />
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}
