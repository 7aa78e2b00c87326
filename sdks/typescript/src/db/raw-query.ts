/**
 * One statement on a connection of a worker, with its rows as they came: the texts that Postgres
 * sends, in the arrays that pg has read them into. By a callback, and without pg's own timeout: with
 * the promises that pg makes, or with that timeout, what V8 could have forgotten young lived until
 * the next full collection, and a worker's memory doubled.
 */

import pg from "pg";
import type { Call, Row } from "../calls/call.ts";
import { explained } from "./sqlstates.ts";

/** The rows of the call; under a name its statement is prepared. */
export function answered(
  client: pg.Client,
  call: Call<unknown>,
  name: string | null,
): Promise<readonly Row[]> {
  return new Promise((resolve, reject) => {
    const statement = new Statement(call, name, (error) => {
      if (error) reject(explained(error));
      else resolve(statement.answer);
    });
    client.query(statement);
  });
}

class Statement extends pg.Query {
  readonly answer: Row[] = [];

  constructor(call: Call<unknown>, name: string | null, onEnd: (error?: Error | null) => void) {
    const { text, values } = call;
    super({ text, values: [...values], ...(name === null ? {} : { name }) }, onEnd);
  }

  /** In place of pg's own, which copies each row through the parsers of its types. */
  handleDataRow({ fields }: { readonly fields: Row }): void {
    this.answer.push(fields);
  }
}
