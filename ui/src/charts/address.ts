/** What of charts stands in the address. */

import { useSearch } from "@tanstack/react-router";
import { type Range, rangeOf } from "@/charts/ranges";

interface Search {
  range?: string;
  definition?: string;
  times?: string;
}

interface Shown {
  range: Range;
  /** As one watches, in the place of a range. */
  isLive: boolean;
  definition: string | undefined;
  /** How long things ran, in the place of how long they waited. */
  isRun: boolean;
}

export function useShown(): Shown {
  const { range, definition, times } = useSearch({ strict: false }) as Search;
  return { range: rangeOf(range), isLive: range === "live", definition, isRun: times === "run" };
}
