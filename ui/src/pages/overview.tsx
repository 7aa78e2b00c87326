/** The overview. Each number links to the list behind it. */

import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { statistics, summary } from "@/api/queries";
import type { SummaryLine } from "@/api/schema";
import { ByDefinition } from "@/charts/by-definition";
import { failuresOf, rangeOf } from "@/charts/ranges";
import { short } from "@/jobs/short-count";
import { FirstSteps } from "@/overview/first-steps";
import { FailureList, LatestJobs, QueueList, UpcomingRuns } from "@/overview/lists";
import { Failure, Skeleton } from "@/parts/feedback";
import { Figure, Figures, Headline } from "@/parts/figures";
import { Page as Frame } from "@/parts/page";
import { duration, useNow } from "@/parts/time";
import { useSession } from "@/session";

const History = lazy(() =>
  import("@/charts/history").then(({ History }) => ({ default: History })),
);

const HOUR_S = 3600;
const LONG_MS = 60_000;

export function Page() {
  const { may } = useSession();
  const hour = useQuery(summary(HOUR_S));
  if (hour.isPending) return <Skeleton rows={10} />;
  if (hour.isError) return <Failure error={hour.error} onRetry={() => void hour.refetch()} />;
  const lines = hour.data.items;
  return (
    <Frame title="Overview">
      <FirstSteps lines={lines} />
      <KeyFigures lines={lines} />
      {may("statistics", "read") && (
        <>
          <Suspense fallback={<div className="h-[250px]" />}>
            <History />
          </Suspense>
          <ByDefinition />
        </>
      )}
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4 lg:grid-cols-2">
        <QueueList />
        <FailureList />
        <UpcomingRuns />
        <LatestJobs />
      </div>
    </Frame>
  );
}

function count(lines: SummaryLine[], ...states: string[]): number {
  return lines
    .filter((line) => states.includes(line.state))
    .reduce((sum, line) => sum + line.jobs, 0);
}

function oldestOf(lines: SummaryLine[]): { at: string; queue: string } | null {
  const waiting = lines.flatMap(({ oldest_queued_at: at, queue }) => (at ? [{ at, queue }] : []));
  return waiting.sort((one, other) => one.at.localeCompare(other.at))[0] ?? null;
}

function KeyFigures({ lines }: { lines: SummaryLine[] }) {
  const now = useNow();
  const { may } = useSession();
  const whole = useQuery({
    ...statistics(rangeOf("1h"), { isWhole: true }),
    enabled: may("statistics", "read"),
  });
  const failed = failuresOf(whole.data?.items[0] ?? null);
  const oldest = oldestOf(lines);
  const waited = oldest && now - new Date(oldest.at).getTime();
  const dead = count(lines, "dead");
  return (
    <Figures>
      <Headline
        title={oldest ? `Oldest wait · queue ${oldest.queue}` : "No waiting jobs"}
        value={waited === null ? "0 s" : duration(waited)}
        to="/jobs"
        search={oldest ? { state: "queued", queue: oldest.queue } : { state: "queued" }}
        isBad={waited !== null && waited > LONG_MS}
      />
      <Figure
        title="Queued"
        value={short(count(lines, "queued"))}
        to="/jobs"
        search={{ state: "queued" }}
      />
      <Figure
        title="Running"
        value={short(count(lines, "running", "canceling"))}
        to="/jobs"
        search={{ state: "running" }}
      />
      <Figure
        title="Succeeded in 1 h"
        value={short(count(lines, "succeeded"))}
        to="/jobs"
        search={{ state: "succeeded", after: "1h" }}
      />
      <Figure
        title="Failed in 1 h"
        value={whole.data ? short(failed) : "–"}
        to="/jobs"
        search={{ state: "failed", after: "1h" }}
        isBad={failed > 0}
      />
      <Figure
        title="Scheduled"
        value={short(count(lines, "scheduled"))}
        to="/jobs"
        search={{ state: "scheduled" }}
      />
      <Figure
        title="Dead"
        value={short(dead)}
        to="/jobs"
        search={{ state: "dead" }}
        isBad={dead > 0}
      />
    </Figures>
  );
}
