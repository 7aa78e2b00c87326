/**
 * The next runs of a schedule, in its time zone and in UTC, with the effect of daylight saving
 * time.
 */

import { useQuery } from "@tanstack/react-query";
import { TriangleAlert } from "lucide-react";
import { nextRuns, nextRunsOf } from "@/api/queries";
import type { NextRuns as Next, PreviewedRun } from "@/api/schema";
import { Failure, FormError } from "@/parts/feedback";
import { relative, useNow } from "@/parts/time";

const CHANGES: Record<string, string> = {
  skipped: "The scheduled time does not exist on this day because of daylight saving time.",
  repeated: "This time occurs twice on this day because of daylight saving time.",
};

/** For a schedule that is being edited. */
export function PlannedRuns({ cron, zone }: { cron: string; zone: string }) {
  const query = useQuery({ ...nextRuns(cron, zone), enabled: cron !== "" && zone !== "" });
  if (query.isError) {
    return (
      <div className="p-4">
        <FormError error={query.error} />
      </div>
    );
  }
  if (!query.data)
    return <p className="px-4 py-3 text-faint">Enter a cron expression to see its next runs.</p>;
  return <Runs next={query.data} />;
}

/** For an existing schedule. */
export function NextRuns({ id }: { id: string }) {
  const { data, error, refetch } = useQuery(nextRunsOf(id));
  if (error) return <Failure error={error} onRetry={() => void refetch()} />;
  return data ? <Runs next={data} /> : <div className="h-48" />;
}

function Runs({ next }: { next: Next }) {
  const now = useNow();
  return (
    <div className="flex flex-col gap-2 py-3">
      <p className="px-4 font-medium">{next.description}</p>
      <table className="w-full text-left">
        <caption className="sr-only">Next runs</caption>
        <thead>
          <tr className="text-faint text-xs">
            <th scope="col" className="py-1 pl-4 font-medium">
              {next.timezone}
            </th>
            <th scope="col" className="px-2 py-1 font-medium">
              UTC
            </th>
            <th scope="col" className="py-1 pr-4 text-right font-medium">
              In
            </th>
          </tr>
        </thead>
        <tbody>
          {next.runs.map((run) => (
            <tr key={run.at} className="border-line border-t">
              <td className="num whitespace-nowrap py-1.5 pl-4">
                {localOf(run)}
                {run.change && (
                  <span className="block text-warn text-xs" title={CHANGES[run.change]}>
                    <TriangleAlert size={12} className="mr-1 inline" aria-hidden />
                    {run.change === "skipped"
                      ? `DST: runs at ${timeOf(run)} instead`
                      : "DST: time occurs twice, runs once"}
                  </span>
                )}
              </td>
              <td className="num whitespace-nowrap px-2 text-muted">{utcOf(run)}</td>
              <td className="num whitespace-nowrap pr-4 text-right text-faint">
                {relative(new Date(run.at).getTime() - now).replace(/^in /, "")}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

const DAY = new Intl.DateTimeFormat("en-GB", {
  weekday: "short",
  day: "numeric",
  month: "short",
  timeZone: "UTC",
});

function dayOf(at: Date): string {
  const year = at.getUTCFullYear();
  return year === new Date().getUTCFullYear() ? DAY.format(at) : `${DAY.format(at)} ${year}`;
}

/** Leave out seconds that are zero. */
function shortTime(time: string): string {
  return time.replace(/:00$/, "");
}

function timeOf(run: PreviewedRun): string {
  return shortTime(run.local.split("T")[1]?.slice(0, 8) ?? "");
}

/** The local time in the schedule's zone, as the server formatted it. */
function localOf(run: PreviewedRun): string {
  const [date] = run.local.split("T");
  return `${dayOf(new Date(`${date}T00:00:00Z`))}, ${timeOf(run)}`;
}

function utcOf(run: PreviewedRun): string {
  const at = new Date(run.at);
  return `${dayOf(at)}, ${shortTime(at.toISOString().slice(11, 19))}`;
}
