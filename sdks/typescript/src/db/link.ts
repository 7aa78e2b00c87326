/** A connection outside of the pool, which one loop of a worker keeps for itself. */

import type pg from "pg";
import type { Call } from "../calls/call.ts";
import { Unavailable } from "../errors.ts";
import { buildClientConfig, destroySocket, execute, openClient, RESPONSE_MS } from "./driver.ts";
import { queryRows } from "./raw-query.ts";

/**
 * A connection kept for one loop: opened when first used, and anew after it was lost. The calls are
 * made one after the other. Only on a connection that is open may the next be sent ahead: it lies
 * with the database then, which need not wait until the last answer was read.
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
      // A call that was cut off may still have its answer on the way.
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

  /** Several statements belong together: those of a call that is sent ahead come after them. */
  async #runInTurn<T>(client: pg.Client, call: Call<T>): Promise<T> {
    const turn = this.#last.then(() => runWithoutSync(client, call));
    this.#last = turn.catch(() => undefined);
    return await turn;
  }

  async #open(): Promise<pg.Client> {
    const client = await openClient({
      ...buildClientConfig(this.#url, this.#behindPooler, this.#durable),
      query_timeout: 0, // a run has its own patience
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
