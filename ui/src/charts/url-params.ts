/** The chart settings in the URL. */

import { useSearch } from "@tanstack/react-router";
import { type Range, rangeOf } from "@/charts/ranges";

interface Search {
  range?: string;
  definition?: string;
  times?: string;
}

interface ChartParams {
  range: Range;
  /** Show live activity instead of a range. */
  isLive: boolean;
  definition: string | undefined;
  /** Show run times instead of queue times. */
  isRun: boolean;
}

export function useChartParams(): ChartParams {
  const { range, definition, times } = useSearch({ strict: false }) as Search;
  return { range: rangeOf(range), isLive: range === "live", definition, isRun: times === "run" };
}
