/**
 * A call of one of the engine's SQL functions, as a value that any connection can run: the
 * function's name, its arguments by name, and the type of its result. Its SQL is derived from these.
 */

import { encode } from "../types/jsonb.ts";
import type { Result, Row } from "./results.ts";

/** Only node-postgres accepts arrays; calls on connections of the caller have none. */
type Parameter = string | number | boolean | null | readonly (string | null)[];

export interface Call<T> {
  /** Where possible, the statement is prepared under this name. */
  readonly function: string;
  readonly arguments: Readonly<Record<string, Parameter | JsonArgument>>;
  readonly result: Result<T>;
  /** Replaces the derived SQL, with the arguments in their order. */
  readonly statement?: string;
  /** Whether connections of a pool prepare the statement too. */
  readonly isFrequent?: boolean;
}

/** A jsonb argument, as JSON. */
export class JsonArgument {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  /** Encode a value. Throws Invalid for a value that jsonb cannot store. */
  static of(value: unknown, field: string): JsonArgument {
    return new JsonArgument(encode(value, field));
  }
}

/** Return a call that runs a statement instead of a function. */
export function query<T>(
  name: string,
  statement: string,
  parameters: readonly Parameter[],
  read: (rows: readonly Row[]) => T,
): Call<T> {
  const given = Object.fromEntries(Object.entries(parameters));
  return { function: name, arguments: given, result: { hasRows: true, read }, statement };
}

/** Return the call with its tenant as an argument, which all functions for applications have. */
export function forTenant<T>(call: Call<T>, tenantId: string): Call<T> {
  return { ...call, arguments: { ...call.arguments, tenant_id: tenantId } };
}

/** Return the call's SQL. Postgres derives the types of parameters from those of the function. */
export function buildSql({ function: name, arguments: given, result, statement }: Call<unknown>) {
  if (statement !== undefined) return statement;
  const list = Object.entries(given).map(([argument, value], index) => {
    // As text, because postgres.js would encode a parameter of type jsonb a second time.
    const cast = value instanceof JsonArgument ? "::text::jsonb" : "";
    return `p_${argument} => $${index + 1}${cast}`;
  });
  const called = `jobforge.${name}(${list.join(", ")})`;
  return result.hasRows ? `select to_json(r)::text from ${called} as r` : `select ${called}::text`;
}

export function listParameters(call: Call<unknown>): Parameter[] {
  return Object.values(call.arguments).map((each) =>
    each instanceof JsonArgument ? each.text : each,
  );
}
