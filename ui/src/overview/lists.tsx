/** The lists of the overview page: queues, failures, upcoming runs, and recent jobs. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { failures, jobs, queues, triggers } from "@/api/queries";
import type { QueueInfo } from "@/api/schema";
import { errorLine } from "@/jobs/columns";
import { short } from "@/jobs/short-count";
import { Panel } from "@/parts/page";
import { State } from "@/parts/state";
import { Ago } from "@/parts/time";
import { useSession } from "@/session";
import { timesOf } from "@/triggers/labels";

export function QueueList() {
  const { may } = useSession();
  const { data } = useQuery({ ...queues(), enabled: may("queues", "read") });
  const busy = (row: QueueInfo) => row.queued + row.running;
  const rows = [...(data?.items ?? [])].sort((one, other) => busy(other) - busy(one));
  const most = Math.max(1, ...rows.map(busy));
  return (
    <Panel title={<Heading to="/queues">Queues</Heading>}>
      {rows.length === 0 ? (
        <EmptyText>No queues yet. A queue appears when a job or a definition uses it.</EmptyText>
      ) : (
        <ul className="py-1.5">
          {rows.slice(0, 6).map((row) => (
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
              <span className="num shrink-0 whitespace-nowrap text-right text-muted text-xs sm:min-w-36">
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

export function FailureList() {
  const { may } = useSession();
  const { data } = useQuery({ ...failures(), enabled: may("failures", "read") });
  const rows = data?.items ?? [];
  return (
    <Panel title={<Heading to="/failures">Failures</Heading>}>
      {rows.length === 0 ? (
        <EmptyText>
          No dead jobs. Jobs that fail permanently appear here, grouped by cause.
        </EmptyText>
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

interface Next {
  key: string;
  at: string;
  name: ReactNode;
  about: ReactNode;
}

/** Upcoming runs of scheduled jobs and of schedules. */
function useNext(): Next[] {
  const { may } = useSession();
  const waiting = useQuery({ ...jobs({ state: "scheduled" }, 200), queryKey: ["coming"] });
  const planned = useQuery({
    ...triggers(),
    enabled: may("triggers", "read"),
    refetchInterval: false,
  });
  const ofJobs = (waiting.data?.items ?? []).map((row) => ({
    key: row.id,
    at: row.run_at,
    name: (
      <Link to="/jobs/$id" params={{ id: row.id }} className="hover:text-accent">
        {row.definition}
      </Link>
    ),
    about: row.attempt > 0 ? `attempt ${row.attempt + 1} of ${row.max_attempts}` : row.queue,
  }));
  const ofTriggers = (planned.data?.items ?? []).flatMap((row) =>
    row.enabled && row.next_run_at
      ? [
          {
            key: row.id,
            at: row.next_run_at,
            name: (
              <Link to="/triggers/$id" params={{ id: row.id }} className="hover:text-accent">
                {row.definition}
              </Link>
            ),
            about: <code className="font-mono">{timesOf(row.cron ?? "")}</code>,
          },
        ]
      : [],
  );
  return [...ofJobs, ...ofTriggers].sort((one, other) => one.at.localeCompare(other.at));
}

export function UpcomingRuns() {
  const rows = useNext().slice(0, 10);
  return (
    <Panel
      title={
        <Heading to="/jobs" search={{ state: "scheduled" }}>
          Upcoming runs
        </Heading>
      }
    >
      {rows.length === 0 ? (
        <EmptyText>No upcoming runs. Create a schedule, or enqueue a job with a delay.</EmptyText>
      ) : (
        <ul className="py-1.5">
          {rows.map((row) => (
            <li key={row.key} className="flex h-8 items-center gap-3 px-4">
              <span className="w-20 shrink-0 text-plan">
                <Ago at={row.at} />
              </span>
              <span className="min-w-0 flex-1 truncate font-medium">{row.name}</span>
              <span className="shrink-0 text-faint text-xs">{row.about}</span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}

export function LatestJobs() {
  const { data } = useQuery({ ...jobs({}, 10), queryKey: ["coming", "latest"] });
  const rows = data?.items ?? [];
  return (
    <Panel title={<Heading to="/jobs">Newest jobs</Heading>}>
      {rows.length === 0 ? (
        <EmptyText>No jobs yet. Run a job from the Definitions page.</EmptyText>
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

function EmptyText({ children }: { children: ReactNode }) {
  return <p className="px-4 py-3 text-muted">{children}</p>;
}
