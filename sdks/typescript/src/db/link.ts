/** A connection outside of the pool for one loop of a worker. */

import pg from "pg";
import { buildSql, type Call, listParameters } from "../calls/call.ts";
import type { Row } from "../calls/results.ts";
import { Unavailable } from "../errors.ts";
import { buildClientConfig, destroySocket, openClient, RESPONSE_MS } from "./driver.ts";
import { orTranslate } from "./sqlstates.ts";

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
      return await runRaw(client, call, !this.#behindPooler);
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
  await orTranslate(client.query("begin"));
  try {
    const settings = "set local synchronous_commit = off; set local datestyle = ISO";
    await orTranslate(client.query(settings));
    const result = await runRaw(client, call, false);
    await orTranslate(client.query("commit"));
    return result;
  } catch (error) {
    await client.query("rollback").catch(() => undefined);
    throw error;
  }
}

/**
 * Run a call without pg's promises and its timeout, which keep short-lived objects alive until the
 * next full collection: they doubled a worker's memory.
 */
async function runRaw<T>(client: pg.Client, call: Call<T>, isPrepared: boolean): Promise<T> {
  const query = new Promise<readonly Row[]>((resolve, reject) => {
    const raw = new RawQuery(call, isPrepared, (error) => {
      if (error) reject(error);
      else resolve(raw.rawRows);
    });
    client.query(raw);
  });
  return call.result.read(await orTranslate(query));
}

/** A query whose rows stay unparsed: the arrays of strings that pg has read. */
class RawQuery extends pg.Query {
  /** Not `rows`, an option of pg.Query that pipeline mode rejects. */
  readonly rawRows: Row[] = [];

  constructor(call: Call<unknown>, isPrepared: boolean, onEnd: (error?: Error | null) => void) {
    const name = isPrepared ? call.function : undefined;
    super({ text: buildSql(call), values: listParameters(call), name }, onEnd);
  }

  /** Replaces pg's method, which copies each row through the type parsers. */
  handleDataRow({ fields }: { readonly fields: Row }): void {
    this.rawRows.push(fields);
  }
}
