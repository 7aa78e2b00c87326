/** How long: a number of seconds, or a text like "5m". */

import { Invalid } from "../errors.ts";

export type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`;

const UNITS: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 };

/** Invalid with the field when it is no duration, or a negative one. */
export function seconds(duration: Duration, field: string): number {
  const matched = typeof duration === "string" ? /^([\d.]+)(ms|s|m|h|d)$/.exec(duration) : null;
  const value = matched ? Number(matched[1]) * (UNITS[matched[2] ?? ""] ?? Number.NaN) : duration;
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) {
    throw new Invalid(`${field} must be seconds, or a text like "5m", not ${String(duration)}`, {
      field,
    });
  }
  return value;
}

export function wholeSeconds(duration: Duration, field: string): number {
  return Math.ceil(seconds(duration, field));
}
