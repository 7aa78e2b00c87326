/**
 * Tracks whether the database is reachable, for all loops of a worker, and logs each change once.
 */

import type { Call } from "../calls/call.ts";
import { Unavailable } from "../errors.ts";
import { emit } from "../observability/logs.ts";
import type { DedicatedConnection } from "./link.ts";

/** An outage lasts from the first failed call to the next successful call of any link. */
export class Outage {
  #since: number | null = null;

  begin(error: Unavailable): void {
    if (this.#since !== null) return;
    this.#since = performance.now();
    emit("database.lost", { error: error.message }, "warning");
  }

  end(): void {
    if (this.#since === null) return;
    const durationMs = Math.round(performance.now() - this.#since);
    this.#since = null;
    emit("database.back", { duration_ms: durationMs });
  }
}

/** A link that reports the success and failure of its calls to the Outage. */
export class MonitoredLink {
  readonly #link: DedicatedConnection;
  readonly #outage: Outage;

  constructor(link: DedicatedConnection, outage: Outage) {
    this.#link = link;
    this.#outage = outage;
  }

  async run<T>(call: Call<T>): Promise<T> {
    try {
      const result = await this.#link.run(call);
      this.#outage.end();
      return result;
    } catch (error) {
      if (error instanceof Unavailable) this.#outage.begin(error);
      throw error;
    }
  }

  async close(): Promise<void> {
    await this.#link.close();
  }
}
