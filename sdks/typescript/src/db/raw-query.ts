/**
 * One statement on a connection of a worker, with its rows as they came: the texts that Postgres
 * sends, in the arrays that pg has read them into. By a callback, and without pg's own timeout: with
 * the promises that pg makes, or with that timeout, what V8 could have forgotten young lived until
 * the next full collection, and a worker's memory doubled.
 */

import pg from "pg";
import type { Call, Row } from "../calls/call.ts";
import { translateError } from "./sqlstates.ts";

/** The rows of the call; under a name its statement is prepared. */
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

  /** In place of pg's own, which copies each row through the parsers of its types. */
  handleDataRow({ fields }: { readonly fields: Row }): void {
    this.rawRows.push(fields);
  }
}
