/** Charts of attempts, wait times and run times, for all definitions or one. */

import { useQuery } from "@tanstack/react-query";
import { statistics, workers } from "@/api/queries";
import type { Statistic } from "@/api/schema";
import { Chart, type Series } from "@/charts/chart";
import { failuresOf, RANGES, type Range, steps, successesOf } from "@/charts/ranges";
import { useChartParams } from "@/charts/url-params";
import { short } from "@/jobs/short-count";
import { Activity } from "@/live/activity";
import { Choice } from "@/parts/choice";
import { Failure } from "@/parts/feedback";
import { Panel } from "@/parts/page";
import { duration } from "@/parts/time";
import { useSession } from "@/session";

const CHOICES = RANGES.map(({ name, label }) => [name, label] as const);

/** Uses the given definition, or the one in the URL. */
export function History({ only }: { only?: string }) {
  const { range, isLive, definition: named } = useChartParams();
  const definition = only ?? named;
  const of = named === undefined || only !== undefined ? "" : ` of ${named}`;
  const ranges = (
    <Choice
      label="Range"
      name="range"
      active={isLive ? "live" : range.name}
      choices={only === undefined ? [...CHOICES, ["live", "Live"]] : CHOICES}
    />
  );
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4 lg:grid-cols-2">
      <Panel title={`Attempts${of}`} actions={ranges}>
        {isLive && only === undefined ? (
          <Activity />
        ) : (
          <EndedChart range={range} definition={definition} />
        )}
      </Panel>
      <Panel title={`Wait and run times${of}`} actions={<TimesPanel />}>
        <TimesChart range={range} definition={definition} />
      </Panel>
    </div>
  );
}

function TimesPanel() {
  const { isRun } = useChartParams();
  return (
    <Choice
      label="Time"
      name="times"
      active={isRun ? "run" : "wait"}
      choices={[
        ["wait", "Wait"],
        ["run", "Run"],
      ]}
    />
  );
}

interface Props {
  range: Range;
  definition: string | undefined;
}

function useSteps({ range, definition }: Props) {
  const query = useQuery(statistics(range, { definition }));
  const found = query.data ? steps(range, query.data.since, query.data.items) : null;
  return { ...query, found };
}

function EndedChart(props: Props) {
  const { found, error, refetch } = useSteps(props);
  const marks = useDeploys(props.range);
  if (error) return <Failure error={error} onRetry={() => void refetch()} />;
  if (!found) return <div className="h-[204px]" />;
  const { times, rows } = found;
  const sum = (count: (row: Statistic | null) => number) =>
    short(rows.reduce((all, row) => all + count(row), 0));
  // The bar of failed jobs is drawn in front of the bar of all jobs, so that they look stacked.
  const series: Series[] = [
    {
      label: "succeeded",
      tone: "ok",
      values: rows.map((row) => successesOf(row) + failuresOf(row)),
      whole: sum(successesOf),
      of: (index) => successesOf(rows[index] ?? null),
    },
    { label: "failed", tone: "bad", values: rows.map(failuresOf), whole: sum(failuresOf) },
  ];
  return (
    <Chart
      label={`Attempts in the last ${props.range.label}`}
      kind="bars"
      times={times}
      series={series}
      format={short}
      marks={marks}
    />
  );
}

function TimesChart(props: Props) {
  const { isRun } = useChartParams();
  const { found, error, refetch } = useSteps(props);
  const whole = useQuery(statistics(props.range, { definition: props.definition, isWhole: true }));
  if (error) return <Failure error={error} onRetry={() => void refetch()} />;
  if (!found) return <div className="h-[204px]" />;
  const total = whole.data?.items[0];
  const line = (label: string, tone: Series["tone"], of: (row: Statistic) => number | null) => ({
    label,
    tone,
    values: found.rows.map((row) => (row === null ? null : of(row))),
    whole: total ? formatTime(of(total)) : "–",
  });
  const series: Series[] = [
    line("p50", "run", (row) => (isRun ? row.run_p50_ms : row.wait_p50_ms)),
    line("p95", "plan", (row) => (isRun ? row.run_p95_ms : row.wait_p95_ms)),
  ];
  return (
    <Chart
      label={`${isRun ? "Run" : "Wait"} times in the last ${props.range.label}`}
      kind="lines"
      times={found.times}
      series={series}
      format={duration}
    />
  );
}

function formatTime(ms: number | null): string {
  return ms === null ? "–" : duration(ms);
}

/**
 * The steps in which the first worker of each build started. Only for users who may read workers.
 */
function useDeploys({ step_s }: Range): { at: number; label: string }[] {
  const { may } = useSession();
  const { data } = useQuery({ ...workers(), enabled: may("workers", "read") });
  const first = new Map<string, number>();
  for (const each of data?.items ?? []) {
    if (!each.build) continue;
    const at = new Date(each.started_at).getTime() / 1000;
    first.set(each.build, Math.min(at, first.get(each.build) ?? at));
  }
  return [...first].map(([label, at]) => ({ at: Math.floor(at / step_s) * step_s, label }));
}
