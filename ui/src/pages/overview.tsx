/** How things stand. Each number leads to the list that proves it. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Check, Circle } from "lucide-react";
import type { ReactNode } from "react";
import { definitions, failures, jobs, queues, summary } from "@/api/queries";
import type { SummaryLine } from "@/api/schema";
import { tenant } from "@/config";
import { errorLine } from "@/jobs/columns";
import { short } from "@/jobs/counts";
import { Activity } from "@/live/activity";
import { Failure, Skeleton, Snippet } from "@/parts/feedback";
import { Page as Frame, Panel } from "@/parts/page";
import { State } from "@/parts/state";
import { Ago, duration, useNow } from "@/parts/time";
import { useSession } from "@/session";

const HOUR_S = 3600;

export function Page() {
  const hour = useQuery(summary(HOUR_S));
  if (hour.isPending) return <Skeleton rows={10} />;
  if (hour.isError) return <Failure error={hour.error} onRetry={() => void hour.refetch()} />;
  const lines = hour.data.items;
  return (
    <Frame title="Overview" lead="Now, and the last hour.">
      <FirstSteps lines={lines} />
      <Figures lines={lines} />
      <Panel title="Attempts that ended, as you watch">
        <Activity />
      </Panel>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4 lg:grid-cols-2">
        <QueueList />
        <FailureList />
        <Coming />
        <Latest />
      </div>
    </Frame>
  );
}

function count(lines: SummaryLine[], ...states: string[]): number {
  return lines
    .filter((line) => states.includes(line.state))
    .reduce((sum, line) => sum + line.jobs, 0);
}

function Figures({ lines }: { lines: SummaryLine[] }) {
  const now = useNow();
  const waits = lines.flatMap((line) =>
    line.oldest_queued_at ? [now - new Date(line.oldest_queued_at).getTime()] : [],
  );
  const oldest = waits.length > 0 ? Math.max(...waits) : null;
  const dead = count(lines, "dead");
  return (
    <dl className="grid grid-cols-2 gap-px overflow-hidden rounded-lg border border-line bg-line sm:grid-cols-3 xl:grid-cols-6">
      <Figure
        title="Oldest wait"
        value={oldest === null ? "none" : duration(oldest)}
        to={{ state: "queued" }}
        isBad={oldest !== null && oldest > 60_000}
      />
      <Figure title="Queued" value={short(count(lines, "queued"))} to={{ state: "queued" }} />
      <Figure
        title="Running"
        value={short(count(lines, "running", "canceling"))}
        to={{ state: "running" }}
      />
      <Figure
        title="Scheduled"
        value={short(count(lines, "scheduled"))}
        to={{ state: "scheduled" }}
      />
      <Figure
        title="Succeeded in 1 h"
        value={short(count(lines, "succeeded"))}
        to={{ state: "succeeded", after: "1h" }}
      />
      <Figure title="Dead" value={short(dead)} to={{ state: "dead" }} isBad={dead > 0} />
    </dl>
  );
}

function Figure({
  title,
  value,
  to,
  isBad = false,
}: {
  title: string;
  value: string;
  to: Record<string, string>;
  isBad?: boolean;
}) {
  return (
    <div className="relative flex flex-col-reverse justify-end bg-surface px-4 py-3 hover:bg-hover">
      <dt className="text-muted">
        <Link to="/jobs" search={to} className="after:absolute after:inset-0">
          {title}
        </Link>
      </dt>
      <dd
        className={`num font-semibold text-2xl leading-8 tracking-tight ${isBad ? "text-bad" : ""}`}
      >
        {value}
      </dd>
    </div>
  );
}

/** Three steps that tick by themselves; gone when all are done. */
function FirstSteps({ lines }: { lines: SummaryLine[] }) {
  const known = useQuery(definitions());
  const week = useQuery(summary(7 * 86_400));
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

function QueueList() {
  const { may } = useSession();
  const { data } = useQuery({ ...queues(), enabled: may("queues", "read") });
  const rows = data?.items ?? [];
  const most = Math.max(1, ...rows.map((row) => row.queued + row.running));
  return (
    <Panel title={<Heading to="/queues">Queues</Heading>}>
      {rows.length === 0 ? (
        <Nothing>A queue is there as soon as a job or a definition names it.</Nothing>
      ) : (
        <ul className="py-1.5">
          {rows.slice(0, 8).map((row) => (
            <li key={row.name} className="flex h-8 items-center gap-3 px-4">
              <Link
                to="/jobs"
                search={{ queue: row.name }}
                className="w-20 truncate font-medium hover:text-accent sm:w-28"
              >
                {row.name}
              </Link>
              <div
                className="flex h-2 flex-1 overflow-hidden rounded-full bg-raised"
                role="img"
                aria-label={`${row.running} running, ${row.queued} queued`}
              >
                <div className="bg-run" style={{ width: `${(row.running / most) * 100}%` }} />
                <div className="bg-strong" style={{ width: `${(row.queued / most) * 100}%` }} />
              </div>
              <span className="num shrink-0 text-right text-muted text-xs sm:w-36">
                {row.paused_at ? <span className="text-warn">paused · </span> : null}
                {short(row.running)} running · {short(row.queued)} queued
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function FailureList() {
  const { may } = useSession();
  const { data } = useQuery({ ...failures(), enabled: may("failures", "read") });
  const rows = data?.items ?? [];
  return (
    <Panel title={<Heading to="/failures">Failures</Heading>}>
      {rows.length === 0 ? (
        <Nothing>
          No dead jobs. Those that use up their attempts are gathered here by what they died of.
        </Nothing>
      ) : (
        <ul className="py-1.5">
          {rows.slice(0, 6).map((row) => (
            <li key={row.fingerprint} className="flex h-8 items-center gap-3 px-4">
              <span className="num min-w-6 shrink-0 text-right font-semibold text-bad">
                {short(row.jobs)}
              </span>
              <Link
                to="/failures"
                search={{ group: row.fingerprint }}
                className="min-w-0 flex-1 truncate hover:text-accent"
              >
                <span className="font-medium">{row.definition}</span>{" "}
                <span className="text-muted">{errorLine(row.error)}</span>
              </Link>
              <span className="shrink-0 text-faint text-xs">
                <Ago at={row.last_seen} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

/** The list is by age of the job; of so few, the next ones are found here. */
function Coming() {
  const { data } = useQuery({ ...jobs({ state: "scheduled" }, 200), queryKey: ["coming"] });
  const rows = [...(data?.items ?? [])]
    .sort((one, other) => one.run_at.localeCompare(other.run_at))
    .slice(0, 6);
  return (
    <Panel
      title={
        <Heading to="/jobs" search={{ state: "scheduled" }}>
          Coming up
        </Heading>
      }
    >
      {rows.length === 0 ? (
        <Nothing>Nothing waits for its time.</Nothing>
      ) : (
        <ul className="py-1.5">
          {rows.map((row) => (
            <li key={row.id} className="flex h-8 items-center gap-3 px-4">
              <span className="w-20 shrink-0 text-plan">
                <Ago at={row.run_at} />
              </span>
              <Link
                to="/jobs/$id"
                params={{ id: row.id }}
                className="min-w-0 flex-1 truncate font-medium hover:text-accent"
              >
                {row.definition}
              </Link>
              <span className="shrink-0 text-faint text-xs">
                {row.attempt > 0 ? `try ${row.attempt + 1} of ${row.max_attempts}` : row.queue}
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Latest() {
  const { data } = useQuery({ ...jobs({}, 6), queryKey: ["coming", "latest"] });
  const rows = data?.items ?? [];
  return (
    <Panel title={<Heading to="/jobs">Newest jobs</Heading>}>
      {rows.length === 0 ? (
        <Nothing>None yet.</Nothing>
      ) : (
        <ul className="py-1.5">
          {rows.map((row) => (
            <li key={row.id} className="flex h-8 items-center gap-3 px-4">
              <span className="w-24 shrink-0">
                <State name={row.state} />
              </span>
              <Link
                to="/jobs/$id"
                params={{ id: row.id }}
                className="min-w-0 flex-1 truncate font-medium hover:text-accent"
              >
                {row.definition}
              </Link>
              <span className="shrink-0 text-faint text-xs">
                <Ago at={row.created_at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

function Heading({
  to,
  search,
  children,
}: {
  to: string;
  search?: Record<string, string>;
  children: ReactNode;
}) {
  return (
    <Link to={to} search={search ?? {}} className="hover:text-accent">
      {children}
    </Link>
  );
}

function Nothing({ children }: { children: ReactNode }) {
  return <p className="px-4 py-3 text-muted">{children}</p>;
}
