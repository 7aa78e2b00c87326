/**
 * Runs calls on the caller's connection: node-postgres, or a handle of Kysely, Drizzle, Prisma or
 * postgres.js, recognized by their methods. The call joins the connection's transaction.
 */

import { buildSql, type Call, listParameters } from "../calls/call.ts";
import { Invalid } from "../errors.ts";
import { orTranslate } from "./sqlstates.ts";

type Rows = readonly Record<string, unknown>[];

/** node-postgres: a `Client`, `PoolClient` or `Pool`. */
export interface PgHandle {
  query(text: string, values: unknown[]): Promise<{ readonly rows: unknown[] }>;
}

/** Kysely: a `Kysely` instance or one of its transactions. */
export interface KyselyHandle {
  executeQuery(query: never): Promise<{ readonly rows: unknown[] }>;
}

/** Drizzle: `drizzle(…)`, or the `tx` of its transactions, on node-postgres or postgres.js. */
export interface DrizzleHandle {
  readonly _: { readonly session: unknown };
  execute(query: never): unknown;
}

/** Prisma: a `PrismaClient`, or the `tx` of its interactive transactions. */
export interface PrismaHandle {
  $queryRawUnsafe(text: string, ...values: never[]): PromiseLike<unknown>;
}

/** postgres.js: the `sql` function, or the `sql` that `begin` passes on. */
export interface PostgresJsHandle {
  unsafe(text: string, values: never[]): PromiseLike<unknown>;
}

/** A connection or transaction of your own, which you can pass as `conn`. */
export type Queryable = PgHandle | KyselyHandle | DrizzleHandle | PrismaHandle | PostgresJsHandle;

/** Run a call on the connection. Driver errors become errors of errors.ts. */
export async function runOn<T>(conn: Queryable, call: Call<T>): Promise<T> {
  const rows = await orTranslate(sendQuery(conn, buildSql(call), listParameters(call)));
  // By position, because some libraries rename columns, for example to camel case.
  return call.result.read(rows.map((row) => Object.values(row) as string[]));
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
  throw new Invalid("conn must be a connection of pg, Kysely, Drizzle, Prisma or postgres.js", {
    field: "conn",
  });
}

/** The object that Kysely's `CompiledQuery.raw` creates. */
function compileForKysely(sql: string, parameters: unknown[]): object {
  const query = { kind: "RawNode", sqlFragments: [sql], parameters: [] };
  return { query, queryId: { queryId: crypto.randomUUID() }, sql, parameters };
}

/**
 * Return the driver's connection from Drizzle's session. In a transaction, it is the connection of
 * the transaction.
 */
function findDrizzleClient(conn: object): Queryable | null {
  const session = (conn as { _?: { session?: { client?: unknown } } })._?.session;
  const client = session?.client;
  if (typeof client !== "object" && typeof client !== "function") return null;
  return client === null || "_" in client ? null : (client as Queryable);
}
