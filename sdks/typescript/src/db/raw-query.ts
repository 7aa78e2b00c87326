/**
 * Runs one statement on a worker's connection and returns its rows unparsed: the arrays of strings
 * that pg has read. It uses a callback and no pg timeout, because pg's promises and its timeout
 * keep short-lived objects alive until the next full collection, which doubled a worker's memory.
 */

import pg from "pg";
import type { Call, Row } from "../calls/call.ts";
import { translateError } from "./sqlstates.ts";

/** Return the rows of the call. With a name, its statement is prepared. */
export function queryRows(
  client: pg.Client,
  call: Call<unknown>,
  name: string | null,
): Promise<readonly Row[]> {
  return new Promise((resolve, reject) => {
    const query = new RawQuery(call, name, (error) => {
      if (error) reject(translateError(error));
      else resolve(query.rawRows);
    });
    client.query(query);
  });
}

class RawQuery extends pg.Query {
  /** Not `rows`, an option of pg.Query that pipeline mode rejects. */
  readonly rawRows: Row[] = [];

  constructor(call: Call<unknown>, name: string | null, onEnd: (error?: Error | null) => void) {
    const { text, values } = call;
    super({ text, values: [...values], ...(name === null ? {} : { name }) }, onEnd);
  }

  /** Replaces pg's method, which copies each row through the type parsers. */
  handleDataRow({ fields }: { readonly fields: Row }): void {
    this.rawRows.push(fields);
  }
}
