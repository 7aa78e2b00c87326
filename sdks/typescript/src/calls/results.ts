/**
 * The results of calls: how to read them from the rows that the database returns.
 *
 * A row of a function is sent as one JSON object, whose members are the function's columns. So the
 * columns are those of the result's type, and all drivers return them unchanged.
 */

import type { Enqueued } from "../types/jobs.ts";

/** The columns of a row, as the strings that Postgres sends. */
export type Row = readonly (string | null)[];

export interface Result<T> {
  /** Whether the function returns rows; otherwise it returns one value, sent as a string. */
  readonly hasRows: boolean;
  readonly read: (rows: readonly Row[]) => T;
}

/** The result of a function that returns void, or a value that callers do not need. */
export const NOTHING: Result<void> = { hasRows: false, read: () => undefined };

/** Return the result of a function that returns one value. */
export function value<T extends string | null = string>(): Result<T> {
  return { hasRows: false, read: (rows) => (rows[0]?.[0] ?? null) as T };
}

/** Return the result of a function that returns rows. */
export function many<T>(): Result<T[]> {
  return { hasRows: true, read: (rows) => rows.map(([row]) => JSON.parse(row ?? "null") as T) };
}

/** Return a result that is converted by `convert`. */
export function mapResult<T, U>(result: Result<T>, convert: (read: T) => U): Result<U> {
  return { hasRows: result.hasRows, read: (rows) => convert(result.read(rows)) };
}

/** Enqueued jobs in the order of the request, because the engine returns duplicates first. */
export const ENQUEUED_JOBS: Result<Enqueued[]> = mapResult(
  many<Enqueued & { readonly index: number }>(),
  (rows) =>
    rows.sort((a, b) => a.index - b.index).map(({ job_id, status }) => ({ job_id, status })),
);
