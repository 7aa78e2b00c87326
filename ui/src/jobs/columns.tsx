/** The columns of the job list, and the user's selection of columns. */

import type { JobListing } from "@/api/schema";
import { IdEnd } from "@/parts/copy";
import { State } from "@/parts/state";
import { Age, Span } from "@/parts/time";
import { createStore } from "@/store";

export interface JobColumn {
  name: string;
  title: string;
  width: string;
  /** Shown by default only on wide screens. */
  isRoomy?: boolean;
  cell: (job: JobListing) => React.ReactNode;
}

const NONE = <span className="text-faint">–</span>;

export const COLUMNS: JobColumn[] = [
  { name: "state", title: "State", width: "92px", cell: (job) => <State name={job.state} /> },
  { name: "job", title: "Job", width: "minmax(150px, 1fr)", cell: (job) => <Title job={job} /> },
  { name: "id", title: "ID", width: "60px", cell: (job) => <IdEnd id={job.id} /> },
  {
    name: "queue",
    title: "Queue",
    width: "80px",
    cell: (job) => <TruncatedText text={job.queue} />,
  },
  {
    name: "source",
    title: "Source",
    width: "60px",
    cell: (job) => <TruncatedText text={job.source} />,
  },
  {
    name: "attempt",
    title: "Attempt",
    width: "56px",
    cell: (job) => (
      <span className="num" title={`Attempt ${job.attempt} of ${job.max_attempts}`}>
        {job.attempt}/{job.max_attempts}
      </span>
    ),
  },
  {
    name: "priority",
    title: "Priority",
    width: "52px",
    isRoomy: true,
    cell: (job) => <span className="num">{job.priority}</span>,
  },
  {
    name: "queued",
    title: "Queued",
    width: "56px",
    cell: (job) => <Age at={job.queued_at ?? job.run_at} />,
  },
  {
    name: "started",
    title: "Started",
    width: "52px",
    cell: (job) => <Age at={job.started_at} />,
  },
  {
    name: "waited",
    title: "Waited",
    width: "76px",
    isRoomy: true,
    cell: (job) =>
      job.started_at || job.state === "queued" ? (
        <Span from={job.queued_at} to={job.started_at} />
      ) : (
        NONE
      ),
  },
  {
    name: "ran",
    title: "Ran",
    width: "76px",
    isRoomy: true,
    cell: (job) =>
      job.finished_at || job.state === "running" || job.state === "canceling" ? (
        <Span from={job.started_at} to={job.finished_at} />
      ) : (
        NONE
      ),
  },
  {
    name: "finished",
    title: "Finished",
    width: "56px",
    cell: (job) => <Age at={job.finished_at} />,
  },
  {
    name: "worker",
    title: "Worker",
    width: "60px",
    cell: (job) => (job.worker_id ? <IdEnd id={job.worker_id} /> : NONE),
  },
];

function Title({ job }: { job: JobListing }) {
  const error = job.error && job.state !== "succeeded" ? errorLine(job.error) : null;
  return (
    <span className="flex min-w-0 items-baseline gap-2">
      <span className="max-w-full shrink-0 truncate font-medium">
        {job.definition}
        <span className="text-faint">@{job.version}</span>
      </span>
      {error ? (
        <span className="truncate text-bad text-xs" title={error}>
          {error}
        </span>
      ) : (
        job.tags?.map((tag) => (
          <span key={tag} className="truncate rounded bg-raised px-1 text-faint text-xs">
            {tag}
          </span>
        ))
      )}
    </span>
  );
}

function TruncatedText({ text }: { text: string }) {
  return (
    <span className="block truncate" title={text}>
      {text}
    </span>
  );
}

export function errorLine(error: unknown): string {
  const found = (error ?? {}) as { type?: unknown; message?: unknown; reason?: unknown };
  const parts = [found.type, found.message ?? found.reason].filter(
    (each) => typeof each === "string" && each !== "",
  );
  return parts.join(": ");
}

const KEY = "jobforge.columns";

const kept = localStorage.getItem(KEY);

/** The names of the selected columns. Null: select by the width of the screen. */
export const chosenColumns = createStore(kept === null ? null : new Set(kept.split(",")));

export function chooseColumns(chosen: Set<string>): void {
  localStorage.setItem(KEY, [...chosen].join(","));
  chosenColumns.set(chosen);
}
