/** Durations: seconds as a number, or a string such as "5m". */

import { Invalid } from "../errors.ts";

/** A number of seconds, or a string such as "5m". */
export type Duration = number | `${number}${"ms" | "s" | "m" | "h" | "d"}`;

const UNITS: Record<string, number> = { ms: 0.001, s: 1, m: 60, h: 3600, d: 86_400 };

/**
 * Return the duration in seconds. Throws Invalid with the field if it is not a valid duration or is
 * negative.
 */
export function seconds(duration: Duration, field: string): number {
  const matched = typeof duration === "string" ? /^([\d.]+)(ms|s|m|h|d)$/.exec(duration) : null;
  const value = matched ? Number(matched[1]) * (UNITS[matched[2] ?? ""] ?? Number.NaN) : duration;
  if (typeof value !== "number" || !Number.isFinite(value) || value < 0) {
    throw new Invalid(
      `${field} must be seconds or a string such as "5m", not ${String(duration)}`,
      {
        field,
      },
    );
  }
  return value;
}

export function wholeSeconds(duration: Duration, field: string): number {
  return Math.ceil(seconds(duration, field));
}
