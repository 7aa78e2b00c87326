/** The time ranges of charts, and their steps. */

import type { Statistic } from "@/api/schema";

export interface Range {
  name: string;
  label: string;
  lasts_s: number;
  step_s: number;
}

const HOUR: Range = { name: "1h", label: "1 h", lasts_s: 3_600, step_s: 60 };
export const RANGES: Range[] = [
  HOUR,
  { name: "6h", label: "6 h", lasts_s: 21_600, step_s: 300 },
  { name: "24h", label: "24 h", lasts_s: 86_400, step_s: 900 },
  { name: "7d", label: "7 d", lasts_s: 604_800, step_s: 7_200 },
];

export function rangeOf(name: string | undefined): Range {
  return RANGES.find((each) => each.name === name) ?? HOUR;
}

/** Return the start of the range in seconds, aligned to a step. */
export function startOfRange(range: Range, nowMs: number): number {
  const last = Math.floor(nowMs / 1000 / range.step_s) * range.step_s;
  return last - range.lasts_s + range.step_s;
}

export interface Steps {
  times: number[];
  rows: (Statistic | null)[];
}

/** Return every step, including steps in which no job finished. */
export function steps(range: Range, since: number, items: Statistic[]): Steps {
  const found = new Map(items.map((each) => [new Date(each.at).getTime() / 1000, each]));
  const times = Array.from(
    { length: range.lasts_s / range.step_s },
    (_, index) => since + index * range.step_s,
  );
  return { times, rows: times.map((at) => found.get(at) ?? null) };
}

export function failuresOf(row: Statistic | null): number {
  return row === null ? 0 : row.failed + row.dead;
}

export function successesOf(row: Statistic | null): number {
  return row === null ? 0 : row.attempts - row.failed - row.dead;
}
