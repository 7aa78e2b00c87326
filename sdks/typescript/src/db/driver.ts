/** Options of node-postgres clients, and their errors translated to those of errors.ts. */

import pg from "pg";
import type { JobForgeError } from "../errors.ts";
import { translateError } from "./sqlstates.ts";

const CONNECT_MS = 10_000;
const STATEMENT_MS = 30_000;
const LOCK_MS = 2_000;
/**
 * Longer than the server's statement timeout: without a response by then, the connection is lost.
 */
export const RESPONSE_MS = STATEMENT_MS + 2_000;

export async function openClient(config: pg.ClientConfig): Promise<pg.Client> {
  const client = new pg.Client(config);
  // An `error` event without a listener would end the process; callers add their own listeners
  // later.
  client.on("error", () => undefined);
  await connectOrTranslate(() => client.connect());
  return client;
}

export async function connectOrTranslate<T>(connect: () => Promise<T>): Promise<T> {
  try {
    return await connect();
  } catch (error) {
    throw translateError(error);
  }
}

export function buildClientConfig(
  url: string,
  behindPooler: boolean,
  durable = true,
): pg.ClientConfig {
  const options = [
    `-c statement_timeout=${STATEMENT_MS}`,
    `-c lock_timeout=${LOCK_MS}`,
    "-c idle_in_transaction_session_timeout=10000",
    "-c datestyle=ISO",
    ...(durable ? [] : ["-c synchronous_commit=off"]),
  ];
  return {
    connectionString: url,
    application_name: "jobforge",
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: RESPONSE_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: 5_000,
    ...(behindPooler ? {} : { options: options.join(" ") }),
  };
}

export async function execute(
  client: pg.Client | pg.PoolClient,
  text: string,
  values: string[],
): Promise<void> {
  try {
    await client.query(text, values);
  } catch (error) {
    throw translateError(error) as JobForgeError;
  }
}

/** Close the connection at once, including calls in flight. */
export function destroySocket(client: pg.Client): void {
  const { connection } = client as unknown as { connection?: { stream?: { destroy(): void } } };
  connection?.stream?.destroy();
}
