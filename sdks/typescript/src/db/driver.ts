/** Opens and closes connections of node-postgres. */

import pg from "pg";
import { orTranslate } from "./sqlstates.ts";

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
  await orTranslate(client.connect());
  return client;
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

/** Close the connection at once, including calls in flight. */
export function destroySocket(client: pg.Client): void {
  const { connection } = client as unknown as { connection?: { stream?: { destroy(): void } } };
  connection?.stream?.destroy();
}
