/**
 * Connections that are not ours, by what they can do: node-postgres, and the handles of Kysely,
 * Drizzle, Prisma and postgres.js. A call joins whatever transaction they are in.
 */

import type { Call } from "../calls/call.ts";
import { Invalid } from "../errors.ts";
import { translateError } from "./sqlstates.ts";

type Rows = readonly Record<string, unknown>[];

/** A `Client`, `PoolClient` or `Pool` of node-postgres. */
export interface PgHandle {
  query(text: string, values: unknown[]): Promise<{ readonly rows: unknown[] }>;
}

/** `Kysely` or a `Transaction` of it. */
export interface KyselyHandle {
  executeQuery(query: never): Promise<{ readonly rows: unknown[] }>;
}

/** `drizzle(…)` or the `tx` of its transactions, over node-postgres or postgres.js. */
export interface DrizzleHandle {
  readonly _: { readonly session: unknown };
  execute(query: never): unknown;
}

/** A `PrismaClient` or the `tx` of its interactive transactions. */
export interface PrismaHandle {
  $queryRawUnsafe(text: string, ...values: never[]): PromiseLike<unknown>;
}

/** The `sql` of postgres.js, or that of its `begin`. */
export interface PostgresJsHandle {
  unsafe(text: string, values: never[]): PromiseLike<unknown>;
}

export type Queryable = PgHandle | KyselyHandle | DrizzleHandle | PrismaHandle | PostgresJsHandle;

/** Runs a call whose answer is one text; errors become ours. */
export async function runOn<T>(conn: Queryable, call: Call<T>): Promise<T> {
  try {
    const rows = await sendQuery(conn, call.text, [...call.values]);
    // By its place: some libraries are told to spell the names of columns their own way.
    const [answer] = Object.values(rows[0] ?? {});
    return call.decode([[answer == null ? null : String(answer)]]);
  } catch (error) {
    throw translateError(error);
  }
}

async function sendQuery(conn: Queryable, text: string, values: unknown[]): Promise<Rows> {
  const sent = values as never[];
  if ("$queryRawUnsafe" in conn) return (await conn.$queryRawUnsafe(text, ...sent)) as Rows;
  if ("executeQuery" in conn) {
    return (await conn.executeQuery(compileForKysely(text, values) as never)).rows as Rows;
  }
  if ("unsafe" in conn) return (await conn.unsafe(text, sent)) as Rows;
  if ("query" in conn && typeof conn.query === "function") {
    return (await conn.query(text, values)).rows as Rows;
  }
  const client = findDrizzleClient(conn);
  if (client !== null) return sendQuery(client, text, values);
  throw new Invalid(
    "conn is no connection that we know: give one of pg, Kysely, Drizzle, Prisma or postgres.js",
    { field: "conn" },
  );
}

/** As Kysely's `CompiledQuery.raw` makes it. */
function compileForKysely(sql: string, parameters: unknown[]): object {
  const query = { kind: "RawNode", sqlFragments: [sql], parameters: [] };
  return { query, queryId: { queryId: crypto.randomUUID() }, sql, parameters };
}

/** Drizzle keeps the driver's connection in its session; in a transaction it is that one's. */
function findDrizzleClient(conn: object): Queryable | null {
  const session = (conn as { _?: { session?: { client?: unknown } } })._?.session;
  const client = session?.client;
  if (typeof client !== "object" && typeof client !== "function") return null;
  return client === null || "_" in client ? null : (client as Queryable);
}
