/** Labels for the options of a trigger. */

import type { CatchUp, Overlap } from "@/api/schema";

export const CATCH_UPS: Record<CatchUp, string> = {
  none: "skip them",
  last: "run the latest one",
  all: "run all of them, up to a limit",
};

export const OVERLAPS: Record<Overlap, string> = {
  allow: "start the new run as well",
  skip: "skip the new run",
  queue: "queue the new run, one at most",
  cancel_running: "cancel the previous run and start the new one",
};

export const OPERATORS: [string, string][] = [
  ["eq", "is"],
  ["ne", "is not"],
  ["in", "is one of"],
  ["exists", "exists"],
  ["prefix", "starts with"],
  ["gt", "is more than"],
  ["lt", "is less than"],
];

/** Return "every 1 h 30 m" for the interval `@every 1h30m`; a cron expression is unchanged. */
export function timesOf(cron: string): string {
  const length = /^\s*@every\s+(\S+)\s*$/i.exec(cron)?.[1];
  return length ? `every ${length.match(/\d+|[a-z]/g)?.join(" ")}` : cron;
}

export const PRESETS: [string, string][] = [
  ["@every 30s", "Every 30 seconds"],
  ["*/5 * * * *", "Every 5 minutes"],
  ["0 * * * *", "Every hour"],
  ["0 9 * * *", "Every day at 9"],
  ["0 9 * * MON-FRI", "Weekdays at 9"],
  ["0 9 * * MON", "Mondays at 9"],
  ["0 6 1 * *", "First day of the month at 6"],
];
