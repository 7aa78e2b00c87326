/**
 * Being woken: what the database notifies, on a connection of its own. It only makes things sooner.
 * Without it, or while it is lost, polling finds everything.
 */

import type { Database, Listening } from "../db/database.ts";
import type { Loop } from "../db/loop.ts";

const PREFIX = "jobforge:";

export class Wakeups {
  readonly #database: Database;
  readonly #queues: readonly string[];
  readonly #own: string;
  readonly #onJob: (queue: string) => void;
  readonly #onNews: () => void;
  #listening: Listening | null = null;

  constructor(
    database: Database,
    workerId: string,
    queues: readonly string[],
    told: { readonly onJob: (queue: string) => void; readonly onNews: () => void },
  ) {
    this.#database = database;
    this.#queues = queues;
    this.#own = `${PREFIX}worker:${workerId}`;
    this.#onJob = told.onJob;
    this.#onNews = told.onNews;
  }

  async step(loop: Loop): Promise<void> {
    const channels = [this.#own, ...this.#queues.map((queue) => PREFIX + queue)];
    this.#listening = await this.#database.listen(channels, (name) => this.#tell(name));
    if (loop.isStopped) this.close();
    loop.wentWell();
    // Nobody told us anything while we were not listening.
    for (const channel of channels) this.#tell(channel);
    await this.#listening?.ended;
    this.close();
    await loop.rest(0.05);
  }

  close(): void {
    this.#listening?.close();
    this.#listening = null;
  }

  #tell(channel: string): void {
    if (channel === this.#own) this.#onNews();
    else this.#onJob(channel.slice(PREFIX.length));
  }
}
