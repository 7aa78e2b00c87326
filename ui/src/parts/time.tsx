/** Relative times with the exact time as tooltip. One shared timer updates all of them. */

import { plural } from "@/parts/plural";
import { createStore } from "@/store";

const clock = createStore(Date.now());

export const useNow = clock.use;
setInterval(() => clock.set(Date.now()), 1000);

export function Ago({ at }: { at: string | null | undefined }) {
  const current = clock.use();
  if (!at) return <span className="text-faint">–</span>;
  return (
    <time dateTime={at} title={formatExact(at)} className="num whitespace-nowrap">
      {relative(new Date(at).getTime() - current)}
    </time>
  );
}

/** A past time without "ago", for columns whose header implies it. */
export function Age({ at }: { at: string | null | undefined }) {
  const current = clock.use();
  if (!at) return <span className="text-faint">–</span>;
  return (
    <time dateTime={at} title={formatExact(at)} className="num whitespace-nowrap">
      {relative(new Date(at).getTime() - current).replace(/ ago$/, "")}
    </time>
  );
}

/** The duration between two times, or until now. */
export function Span({
  from,
  to,
}: {
  from: string | null | undefined;
  to?: string | null | undefined;
}) {
  const current = clock.use();
  if (!from) return <span className="text-faint">–</span>;
  const end = to ? new Date(to).getTime() : current;
  return (
    <span
      className="num whitespace-nowrap"
      title={`From ${formatExact(from)}${to ? `\nto ${formatExact(to)}` : ""}`}
    >
      {duration(end - new Date(from).getTime())}
    </span>
  );
}

const MOMENT = /(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d(?::?\d\d)?))/;

/**
 * A sentence from the server. Its times are shown in the local time zone, with the exact time as
 * tooltip.
 */
export function EngineText({ text }: { text: string }) {
  return text
    .split(MOMENT)
    .map((part, index) =>
      index % 2 === 0 ? part : <Clock key={`${part} ${index}`} at={iso(part)} />,
    );
}

function Clock({ at }: { at: string }) {
  const moment = new Date(at);
  const isToday = moment.toDateString() === new Date(clock.use()).toDateString();
  return (
    <time dateTime={at} title={formatExact(at)} className="num whitespace-nowrap">
      {isToday
        ? moment.toLocaleTimeString()
        : moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" })}
    </time>
  );
}

function iso(text: string): string {
  return text.replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00");
}

export function formatExact(at: string): string {
  const moment = new Date(at);
  const utc = moment.toISOString().replace("T", " ").replace("Z", " UTC");
  const here = moment.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  return `${utc}\n${here} local time`;
}

export function relative(ms: number): string {
  const size = Math.abs(ms);
  if (size < 1_500) return "now";
  return ms < 0 ? `${formatCoarse(size)} ago` : `in ${formatCoarse(size)}`;
}

function formatCoarse(ms: number): string {
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.round(s / 60)} min`;
  if (s < 86_400) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86_400)} d`;
}

export function duration(ms: number): string {
  if (ms < 0) return "0 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return joinUnits(Math.floor(s / 60), "min", s % 60, "s");
  if (s < 86_400) return joinUnits(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "min");
  return joinUnits(Math.floor(s / 86_400), "d", Math.floor((s % 86_400) / 3600), "h");
}

function joinUnits(large: number, unit: string, small: number, smaller: string): string {
  return small === 0 ? `${large} ${unit}` : `${large} ${unit} ${small} ${smaller}`;
}

/** Format a configured duration in the largest unit that is exact. */
export function setLength(seconds: number): string {
  if (seconds === 0) return "off";
  for (const [size, word] of [
    [86_400, "day"],
    [3_600, "hour"],
    [60, "minute"],
  ] as const) {
    if (seconds % size === 0) return plural(seconds / size, word);
  }
  return plural(seconds, "second");
}
