/** A call of one of the engine's functions, as a value that any connection can run. */

import type { Json } from "../types/jobs.ts";

/** The columns of a row, as the strings that Postgres sends. */
export type Row = readonly (string | null)[];

export interface Call<T> {
  /** The function's name. Where possible, the statement is prepared under this name. */
  readonly name: string;
  readonly text: string;
  readonly values: readonly (string | number | boolean | null)[];
  readonly decode: (rows: readonly Row[]) => T;
  /** Whether connections of a pool prepare the statement too. */
  readonly isFrequent?: boolean;
}

/** Decodes the result of a function that returns void. */
export function decodeNothing(): void {}

/** Return the first column of the first row. */
export function decodeValue(rows: readonly Row[]): string {
  return rows[0]?.[0] ?? "";
}

export function decodeValueOrNull(rows: readonly Row[]): string | null {
  return rows[0]?.[0] ?? null;
}

/**
 * Parse the first column, a JSON array of all rows. JSON makes the result independent of the
 * driver's type parsers.
 */
export function decodeDocuments<T>(rows: readonly Row[]): T[] {
  return JSON.parse(rows[0]?.[0] ?? "[]") as T[];
}

/** Return a text[] or uuid[] literal; null elements become SQL nulls. */
export function textArray(elements: readonly (string | null)[] | null): string | null {
  if (elements === null) return null;
  const quoted = elements.map((each) =>
    each === null ? "NULL" : `"${each.replace(/[\\"]/g, "\\$&")}"`,
  );
  return `{${quoted.join(",")}}`;
}

/** Return a jsonb[] literal; undefined and null elements become SQL nulls. */
export function documentArray(elements: readonly (Json | undefined)[]): string {
  return textArray(elements.map((each) => (each == null ? null : JSON.stringify(each)))) ?? "{}";
}
