/** A call of one of the engine's functions, as a value that any connection can run. */

import type { Json } from "../types/jobs.ts";

/** Columns as the texts that Postgres sends. */
export type Row = readonly (string | null)[];

export interface Call<T> {
  /** Of the function; under it the statement is prepared, where that is possible. */
  readonly name: string;
  readonly text: string;
  readonly values: readonly (string | number | boolean | null)[];
  readonly decode: (rows: readonly Row[]) => T;
  /** Prepared on the connections of a pool too. */
  readonly isFrequent?: boolean;
}

/** For functions that return void. */
export function decodeNothing(): void {}

/** The one column of the one row. */
export function decodeValue(rows: readonly Row[]): string {
  return rows[0]?.[0] ?? "";
}

export function decodeValueOrNull(rows: readonly Row[]): string | null {
  return rows[0]?.[0] ?? null;
}

/** All rows in one column as JSON: so the answer is the same whatever the driver does with types. */
export function decodeDocuments<T>(rows: readonly Row[]): T[] {
  return JSON.parse(rows[0]?.[0] ?? "[]") as T[];
}

/** A text[] or uuid[] as Postgres reads it; null is the null of SQL. */
export function textArray(elements: readonly (string | null)[] | null): string | null {
  if (elements === null) return null;
  const quoted = elements.map((each) =>
    each === null ? "NULL" : `"${each.replace(/[\\"]/g, "\\$&")}"`,
  );
  return `{${quoted.join(",")}}`;
}

/** A jsonb[]; what is undefined or null is the null of SQL. */
export function documentArray(elements: readonly (Json | undefined)[]): string {
  return textArray(elements.map((each) => (each == null ? null : JSON.stringify(each)))) ?? "{}";
}
