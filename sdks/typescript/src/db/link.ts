/** A connection outside of the pool for one loop of a worker. */

import type pg from "pg";
import type { Call } from "../calls/call.ts";
import { Unavailable } from "../errors.ts";
import { buildClientConfig, destroySocket, execute, openClient, RESPONSE_MS } from "./driver.ts";
import { queryRows } from "./raw-query.ts";

/**
 * A connection for one loop. It is opened on first use and again after it was lost. Calls run one
 * after the other. On an open connection, the caller may send a call before the previous one has
 * returned; the database then starts it without waiting for the round trip.
 */
export class DedicatedConnection {
  readonly #url: string;
  readonly #durable: boolean;
  readonly #behindPooler: boolean;
  #client: pg.Client | null = null;
  #last: Promise<unknown> = Promise.resolve();
  #inFlight = 0;

  constructor(url: string, durable: boolean, behindPooler: boolean) {
    this.#url = url;
    this.#durable = durable;
    this.#behindPooler = behindPooler;
  }

  async run<T>(call: Call<T>): Promise<T> {
    const client = this.#client ?? (await this.#open());
    const timer = setTimeout(destroySocket, RESPONSE_MS, client);
    this.#inFlight += 1;
    try {
      if (this.#behindPooler && !this.#durable) return await this.#runInTurn(client, call);
      return call.decode(await queryRows(client, call, this.#behindPooler ? null : call.name));
    } catch (error) {
      // The response of a call that timed out could still arrive, so the connection cannot be
      // reused.
      if (error instanceof Unavailable) {
        destroySocket(client);
        if (this.#client === client) this.#client = null;
      }
      throw error;
    } finally {
      this.#inFlight -= 1;
      clearTimeout(timer);
    }
  }

  async close(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    if (client === null) return;
    if (this.#inFlight > 0) destroySocket(client);
    else await client.end().catch(() => undefined);
  }

  /** Run the statements of one call together; the statements of a call sent ahead follow them. */
  async #runInTurn<T>(client: pg.Client, call: Call<T>): Promise<T> {
    const turn = this.#last.then(() => runWithoutSync(client, call));
    this.#last = turn.catch(() => undefined);
    return await turn;
  }

  async #open(): Promise<pg.Client> {
    const client = await openClient({
      ...buildClientConfig(this.#url, this.#behindPooler, this.#durable),
      query_timeout: 0, // `run` has its own timeout
      pipeline: !this.#behindPooler,
    });
    client.on("error", () => {
      if (this.#client === client) this.#client = null;
    });
    this.#client = client;
    return client;
  }
}

async function runWithoutSync<T>(client: pg.Client, call: Call<T>): Promise<T> {
  await execute(client, "begin", []);
  try {
    await execute(client, "set local synchronous_commit = off; set local datestyle = ISO", []);
    const rows = await queryRows(client, call, null);
    await execute(client, "commit", []);
    return call.decode(rows);
  } catch (error) {
    await client.query("rollback").catch(() => undefined);
    throw error;
  }
}
