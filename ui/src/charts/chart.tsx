/**
 * A chart over time with a legend, which shows the values of the hovered step or of the whole
 * range.
 */

import { lazy, Suspense, useState } from "react";

export type Tone = "ok" | "bad" | "run" | "plan" | "accent" | "faint";

export interface Series {
  label: string;
  tone: Tone;
  values: (number | null)[];
  /** The value in the legend while no step is hovered. */
  whole: string;
  /** Returns the value in the legend for a step (default: the plotted value). */
  of?: (index: number) => number | null;
}

export interface ChartProps {
  /** Description for screen readers. */
  label: string;
  kind: "bars" | "lines";
  times: number[];
  series: Series[];
  format: (value: number) => string;
  /** Labels at moments, in seconds. */
  marks?: { at: number; label: string }[];
}

const Plot = lazy(() => import("@/charts/plot").then(({ Plot }) => ({ default: Plot })));

const DOTS: Record<Tone, string> = {
  ok: "bg-ok",
  bad: "bg-bad",
  run: "bg-run",
  plan: "bg-plan",
  accent: "bg-accent",
  faint: "bg-faint",
};

export function Chart(props: ChartProps) {
  const [at, setAt] = useState<number | null>(null);
  const pointed = at !== null && at < props.times.length ? at : null;
  const first = props.times[0] ?? 0;
  const told = [
    ...props.series.map((each) => `${each.label} ${each.whole}`),
    ...(props.marks ?? [])
      .filter((mark) => mark.at >= first)
      .map((mark) => `${mark.label} at ${timeOf(mark.at)}`),
  ].join(", ");
  return (
    <figure className="px-4 pt-3 pb-2">
      <figcaption className="flex min-h-5 flex-wrap items-center gap-x-4 text-muted text-xs">
        {props.series.map((each) => (
          <span key={each.label} className="flex items-center gap-1.5">
            <span className={`size-2 rounded-sm ${DOTS[each.tone]}`} aria-hidden />
            {each.label}
            <span className="num font-medium text-text">
              {pointed === null ? each.whole : legendFigure(each, pointed, props.format)}
            </span>
          </span>
        ))}
        {pointed !== null && (
          <span className="num ml-auto text-faint">{timeOf(props.times[pointed] ?? 0)}</span>
        )}
      </figcaption>
      <div role="img" aria-label={`${props.label}: ${told}`}>
        <Suspense fallback={<div className="h-[168px]" />}>
          <Plot {...props} onHover={setAt} />
        </Suspense>
      </div>
    </figure>
  );
}

function legendFigure(series: Series, index: number, format: (value: number) => string): string {
  const value = series.of ? series.of(index) : series.values[index];
  return value === null || value === undefined ? "–" : format(value);
}

function timeOf(at: number): string {
  return new Date(at * 1000).toLocaleString(undefined, {
    weekday: "short",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  });
}
