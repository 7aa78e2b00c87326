/** Draws a chart on a canvas. The module is loaded with the first chart. */

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useEffect, useEffectEvent, useRef } from "react";
import type { ChartProps, Tone } from "@/charts/chart";
import { theme } from "@/theme";

const HEIGHT = 168;
const DAY_S = 86_400;
const FONT_SIZE = 11;
/**
 * Axis increments for jobs and milliseconds: at least 1, so that no two grid lines have the same
 * label.
 */
const WHOLE = [1, 10, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9].flatMap((n) => [n, 2 * n, 5 * n]);
const FLATTEST = 4;

interface Props extends ChartProps {
  onHover: (index: number | null) => void;
}

export function Plot({ times, series, kind, format, marks, onHover }: Props) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shape = `${kind} ${series.map((each) => each.label).join()}`;
  const hover = useEffectEvent(onHover);
  const drawMarks = useEffectEvent((chart: uPlot) => {
    for (const mark of marks ?? []) drawMark(chart, mark);
  });
  const make = useEffectEvent((element: HTMLDivElement) => {
    const font = `${FONT_SIZE}px ${getComputedStyle(document.body).fontFamily}`;
    const color = (tone: Tone | "line") => () => resolveColor(element, tone);
    return new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        padding: [14, 8, 0, 0],
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false }, points: { show: kind === "lines" } },
        scales: {
          x: { range: (chart) => widenRange(chart.data[0]) },
          y: { range: (_, __, most) => [0, Math.max(most * 1.1, FLATTEST)] },
        },
        axes: [
          {
            font,
            size: 28,
            gap: 8,
            stroke: color("faint"),
            grid: { show: false },
            ticks: { show: false },
            values: (chart, at) => at.map((each) => timeOf(each, chart.data[0])),
          },
          {
            font,
            size: 56,
            stroke: color("faint"),
            grid: { stroke: color("line"), width: 1 },
            ticks: { show: false },
            values: (_, at) => at.map(format),
            incrs: WHOLE,
          },
        ],
        series: [
          {},
          ...series.map((each) => ({
            label: each.label,
            stroke: color(each.tone),
            width: kind === "bars" ? 0 : 1.5,
            points: { show: kind === "lines" && isSparse, size: 4 },
            spanGaps: true,
            ...(kind === "bars" && bars ? { fill: color(each.tone), paths: bars } : {}),
          })),
        ],
        hooks: {
          draw: [(chart) => drawMarks(chart)],
          setCursor: [(chart) => hover(chart.cursor.idx ?? null)],
        },
      },
      [times, ...series.map((each) => each.values)],
      element,
    );
  });

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const made = make(element);
    plot.current = made;
    const sized = new ResizeObserver(() =>
      made.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    sized.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const redraw = () => made.redraw();
    dark.addEventListener("change", redraw);
    return () => {
      dark.removeEventListener("change", redraw);
      sized.disconnect();
      made.destroy();
    };
  }, [shape]);
  useEffect(
    () => plot.current?.setData([times, ...series.map((each) => each.values)]),
    [times, series],
  );
  const shown = theme.use();
  useEffect(() => plot.current?.redraw(), [shown, marks]);
  return <div ref={box} className="h-[168px] min-w-0 overflow-hidden" />;
}

/** Whether a point has no neighbors; a line needs two points to be visible. */
function isSparse(chart: uPlot, index: number): boolean {
  const values = chart.data[index] ?? [];
  return Array.from(values).filter((each) => each !== null).length < 3;
}

const bars = uPlot.paths.bars?.({ size: [0.75, 28] });

/**
 * Return the color that an element of the page would have, because a canvas cannot use CSS
 * variables.
 */
function resolveColor(element: HTMLElement, name: Tone | "line"): string {
  element.style.color = `var(--${name})`;
  const found = getComputedStyle(element).color;
  element.style.color = "";
  return found;
}

/**
 * Extend the range by half a step at both ends, so that the first and last bar are drawn in full.
 */
function widenRange(times: ArrayLike<number>): [number, number] {
  const first = times[0] ?? 0;
  const half = ((times[1] ?? first) - first) / 2;
  return [first - half, (times[times.length - 1] ?? first) + half];
}

function timeOf(at: number, times: ArrayLike<number>): string {
  const lasts = (times[times.length - 1] ?? 0) - (times[0] ?? 0);
  const moment = new Date(at * 1000);
  return lasts > 2 * DAY_S
    ? moment.toLocaleDateString(undefined, { weekday: "short", day: "numeric" })
    : moment.toLocaleTimeString(undefined, {
        hour: "2-digit",
        minute: "2-digit",
        hourCycle: "h23",
      });
}

/** Draw a dashed line through the chart, with its label at the top. */
function drawMark(chart: uPlot, mark: { at: number; label: string }): void {
  const { left, top, width, height } = chart.bbox;
  const x = Math.round(chart.valToPos(mark.at, "x", true));
  if (x < left || x > left + width) return;
  const { ctx } = chart;
  const scale = devicePixelRatio;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = resolveColor(chart.root, "plan");
  ctx.setLineDash([3 * scale, 3 * scale]);
  ctx.beginPath();
  ctx.moveTo(x, top);
  ctx.lineTo(x, top + height);
  ctx.stroke();
  ctx.font = `${FONT_SIZE * scale}px ${getComputedStyle(document.body).fontFamily}`;
  ctx.textBaseline = "bottom";
  const isLeft = x + ctx.measureText(mark.label).width > left + width;
  ctx.textAlign = isLeft ? "right" : "left";
  ctx.fillText(mark.label, x, top - scale);
  ctx.restore();
}
