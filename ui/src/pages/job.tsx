/** One job: why it is not running, its history, its output, and the actions on it. */

import { useQuery } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { Ban, Clipboard, Pencil, RotateCcw } from "lucide-react";
import type { ReactNode } from "react";
import { definition, explanation, job as jobQuery } from "@/api/queries";
import type { Job, JobHistory } from "@/api/schema";
import { useJobActions } from "@/jobs/actions";
import { ArtifactButton } from "@/jobs/artifacts";
import { Attempts } from "@/jobs/attempts";
import { Events } from "@/jobs/events";
import { Log } from "@/jobs/log";
import { Relatives } from "@/jobs/relatives";
import { snippets } from "@/jobs/snippets";
import { ENDED } from "@/jobs/states";
import { Steps } from "@/jobs/steps";
import { Timeline } from "@/jobs/timeline";
import { Button } from "@/parts/button";
import { CopyButton, copy, Id } from "@/parts/copy";
import { Back } from "@/parts/detail";
import { Failure, Skeleton } from "@/parts/feedback";
import { JsonView } from "@/parts/json";
import { Menu } from "@/parts/menu";
import { Panel, useTitle } from "@/parts/page";
import { State } from "@/parts/state";
import { Ago, EngineText, formatExact, Span, setLength } from "@/parts/time";
import { toast } from "@/parts/toasts";
import { useSession } from "@/session";

export function Page() {
  const { id } = useParams({ strict: false }) as { id: string };
  const query = useQuery(jobQuery(id));
  useTitle(query.data ? `${query.data.job.definition} ${query.data.job.state}` : "Job");
  if (query.isPending) return <Skeleton rows={12} />;
  if (query.isError) return <Failure error={query.error} onRetry={() => void query.refetch()} />;
  return <JobView history={query.data} />;
}

function JobView({ history }: { history: JobHistory }) {
  const { job } = history;
  return (
    <div className="mx-auto flex w-full max-w-[1400px] flex-col gap-4 p-4 lg:px-6 lg:py-5">
      <JobHeader job={job} />
      {!ENDED.has(job.state) && <Explanation id={job.id} state={job.state} />}
      <Timeline history={history} />
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4 xl:grid-cols-[minmax(0,1fr)_380px]">
        <div className="flex min-w-0 flex-col gap-4">
          <Steps id={job.id} />
          <Attempts history={history} />
          <Log job={job} />
          <Events events={history.events} />
        </div>
        <div className="flex min-w-0 flex-col gap-4">
          <Panel title="Payload" actions={<ArtifactButton job={job} of="payload" />}>
            <JsonView label="Payload" value={job.payload} />
          </Panel>
          {job.state === "succeeded" && (
            <Panel title="Result" actions={<ArtifactButton job={job} of="result" />}>
              <JsonView label="Result" value={job.result} />
            </Panel>
          )}
          <Relatives history={history} />
          <Facts job={job} />
        </div>
      </div>
    </div>
  );
}

function JobHeader({ job }: { job: Job }) {
  const actions = useJobActions(job, () => undefined);
  const copies = snippets(job).map(({ label, text }) => ({
    label: `Copy as ${label}`,
    act: () => void copy(text).then(() => toast(`Copied as ${label}.`)),
  }));
  return (
    <header className="flex flex-wrap items-start justify-between gap-x-4 gap-y-3">
      <div className="min-w-0">
        <Back to="/jobs" label="Jobs" />
        <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
          <h1 className="break-all font-semibold text-lg leading-7 tracking-tight">
            {job.definition}
            <span className="text-faint">@{job.version}</span>
          </h1>
          <span aria-live="polite" data-state={job.state}>
            <State name={job.state} />
          </span>
        </div>
        <div className="flex min-w-0 items-center gap-1 text-faint">
          <code className="truncate font-mono text-xs">{job.id}</code>
          <CopyButton text={job.id} label="Copy ID" />
        </div>
      </div>
      <div className="flex flex-wrap items-center gap-2">
        <Menu
          label="Copy as"
          trigger={(props) => (
            <Button icon={Clipboard} {...props}>
              Copy as
            </Button>
          )}
          items={copies}
        />
        {actions.canRetry && (
          <>
            <Button icon={Pencil} onClick={actions.edit}>
              Edit and retry
            </Button>
            <Button
              look={job.state === "dead" ? "primary" : "plain"}
              icon={RotateCcw}
              isOnce
              onClick={() => void actions.retry()}
            >
              Retry
            </Button>
          </>
        )}
        {actions.canCancel && (
          <Button look="danger" icon={Ban} onClick={actions.cancel}>
            {job.state === "dead" ? "Discard" : "Cancel"}
          </Button>
        )}
        {actions.dialog}
      </div>
    </header>
  );
}

/** The reasons why the job is not running, the decisive one first. */
function Explanation({ id, state }: { id: string; state: string }) {
  const { data } = useQuery({ ...explanation(id), refetchInterval: 3_000 });
  const reasons = data?.items.filter((each) => each.code !== state || state !== "running") ?? [];
  if (reasons.length === 0) return null;
  return (
    <section
      aria-label="Why this job is not running"
      className="rounded-lg border border-line bg-surface"
    >
      <ol>
        {reasons.map((reason, index) => (
          <li
            key={reason.code}
            className={`wrap-anywhere flex flex-col gap-0.5 border-line border-b border-l-2 px-4 py-2.5 last:border-b-0 ${index === 0 ? "border-l-warn" : "border-l-transparent"}`}
          >
            <span className="flex flex-wrap items-baseline gap-x-2">
              <strong className="font-semibold">
                <EngineText text={reason.message} />
              </strong>
              <code className="font-mono text-faint text-xs">{reason.code}</code>
            </span>
            {reason.remedy && <span className="text-muted">{reason.remedy}</span>}
            <Holders detail={reason.detail} />
          </li>
        ))}
      </ol>
    </section>
  );
}

function Holders({ detail }: { detail: Record<string, unknown> }) {
  const held = detail.held_by;
  if (!Array.isArray(held) || held.length === 0) return null;
  return (
    <span className="flex flex-wrap items-center gap-2 text-muted">
      Running jobs:
      {held.map((each) => {
        const id =
          typeof each === "string" ? each : String((each as { job_id?: string }).job_id ?? "");
        return (
          <Link key={id} to="/jobs/$id" params={{ id }} className="text-accent hover:underline">
            <Id id={id} />
          </Link>
        );
      })}
    </span>
  );
}

function Facts({ job }: { job: Job }) {
  const facts: [string, ReactNode][] = [
    ["Queue", <FilterLink key="queue" name="queue" value={job.queue} />],
    [
      "Priority",
      <span key="priority" className="num">
        {job.priority}
      </span>,
    ],
    ["Attempts", `${job.attempt} of ${job.max_attempts}`],
    ["Created", <Ago key="created" at={job.created_at} />],
    ["Created by", job.created_by ?? "–"],
    ["Source", <FilterLink key="source" name="source" value={job.source} />],
    ["Due", <Ago key="due" at={job.run_at} />],
    ["Waited", <Span key="waited" from={job.queued_at} to={job.started_at} />],
    ["Timeout", <Timeout key="timeout" job={job} />],
  ];
  if (job.idempotency_key)
    facts.push([
      "Idempotency key",
      <FilterLink key="key" name="key" value={job.idempotency_key} />,
    ]);
  if (job.correlation_id) {
    facts.push([
      "Correlation ID",
      <FilterLink key="corr" name="correlation_id" value={job.correlation_id} />,
    ]);
  }
  if (job.traceparent)
    facts.push([
      "Trace",
      <code key="trace" className="break-all font-mono text-xs">
        {job.traceparent}
      </code>,
    ]);
  if (job.worker_id) facts.push(["Worker", <Id key="worker" id={job.worker_id} />]);
  if (job.lease_expires_at && job.state === "running")
    facts.push(["Lease expires", <Ago key="lease" at={job.lease_expires_at} />]);
  if (job.expires_at) facts.push(["Expires", <Ago key="expires" at={job.expires_at} />]);
  if (job.limit_key) facts.push(["Limit key", job.limit_key]);
  if (job.cancel_reason) facts.push(["Cancel reason", job.cancel_reason]);
  if (job.tags?.length) {
    facts.push([
      "Tags",
      <span key="tags" className="flex flex-wrap gap-1">
        {job.tags.map((tag) => (
          <FilterLink key={tag} name="tag" value={tag} />
        ))}
      </span>,
    ]);
  }
  if (job.retry_of) {
    facts.push([
      "Retry of",
      <Link
        key="of"
        to="/jobs/$id"
        params={{ id: job.retry_of }}
        className="text-accent hover:underline"
      >
        <Id id={job.retry_of} />
      </Link>,
    ]);
  }
  return (
    <Panel title="Details">
      <dl
        className="grid grid-cols-[auto_minmax(0,1fr)] gap-x-6 gap-y-1.5 px-4 py-3"
        title={`Created ${formatExact(job.created_at)}`}
      >
        {facts.map(([name, value]) => (
          <div key={name} className="contents">
            <dt className="text-faint">{name}</dt>
            <dd className="min-w-0 break-words">{value}</dd>
          </div>
        ))}
      </dl>
    </Panel>
  );
}

/** The job's own timeout, or its definition's. */
function Timeout({ job }: { job: Job }) {
  const { may } = useSession();
  const { data } = useQuery({
    ...definition(job.definition, job.version),
    enabled: job.timeout_s === null && may("definitions", "read"),
  });
  if (job.timeout_s !== null) return <>{setLength(job.timeout_s)}</>;
  return <>{data ? `${setLength(data.timeout_s)} (definition)` : "set by the definition"}</>;
}

/** A link to all jobs with the same value. */
function FilterLink({ name, value }: { name: string; value: string }) {
  return (
    <Link
      to="/jobs"
      search={{ [name]: value }}
      className="break-all hover:text-accent hover:underline"
    >
      {value}
    </Link>
  );
}
