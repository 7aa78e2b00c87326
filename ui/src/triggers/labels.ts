/** Labels for the options of a trigger. */

import type { CatchUp, Overlap } from "@/api/schema";

export const CATCH_UPS: Record<CatchUp, string> = {
  none: "leave them out",
  last: "make up for the latest one",
  all: "make up for all of them, up to a number",
};

export const OVERLAPS: Record<Overlap, string> = {
  allow: "start the new one beside it",
  skip: "leave the new one out",
  queue: "let the new one wait, one at most",
  cancel_running: "cancel it and start the new one",
};

export const OPERATORS: [string, string][] = [
  ["eq", "is"],
  ["ne", "is not"],
  ["in", "is one of"],
  ["exists", "is there"],
  ["prefix", "starts with"],
  ["gt", "is more than"],
  ["lt", "is less than"],
];

export const PRESETS: [string, string][] = [
  ["*/5 * * * *", "Every 5 minutes"],
  ["0 * * * *", "Every hour"],
  ["0 9 * * *", "Every day at 9"],
  ["0 9 * * MON-FRI", "On weekdays at 9"],
  ["0 9 * * MON", "Mondays at 9"],
  ["0 6 1 * *", "On the first of the month at 6"],
];
