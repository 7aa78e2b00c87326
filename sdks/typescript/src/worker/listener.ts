/**
 * Listens for Postgres notifications on a separate connection. Notifications only reduce latency:
 * without them, or while the connection is lost, polling finds all jobs.
 */

import type { BackgroundLoop } from "../db/background-loop.ts";
import type { Database, ListenConnection } from "../db/database.ts";

const PREFIX = "jobforge:";

export class JobListener {
  readonly #database: Database;
  readonly #queues: readonly string[];
  readonly #ownChannel: string;
  readonly #onJob: (queue: string) => void;
  readonly #onHeartbeatRequest: () => void;
  #connection: ListenConnection | null = null;

  constructor(
    database: Database,
    workerId: string,
    queues: readonly string[],
    callbacks: { readonly onJob: (queue: string) => void; readonly onHeartbeatRequest: () => void },
  ) {
    this.#database = database;
    this.#queues = queues;
    this.#ownChannel = `${PREFIX}worker:${workerId}`;
    this.#onJob = callbacks.onJob;
    this.#onHeartbeatRequest = callbacks.onHeartbeatRequest;
  }

  async step(loop: BackgroundLoop): Promise<void> {
    const channels = [this.#ownChannel, ...this.#queues.map((queue) => PREFIX + queue)];
    this.#connection = await this.#database.listen(channels, (name) => this.#notify(name));
    if (loop.isStopped) this.close();
    loop.resetFailures();
    // Notifications may have been missed while the connection was closed.
    for (const channel of channels) this.#notify(channel);
    await this.#connection?.ended;
    this.close();
    await loop.waitForWake(0.05);
  }

  close(): void {
    this.#connection?.close();
    this.#connection = null;
  }

  #notify(channel: string): void {
    if (channel === this.#ownChannel) this.#onHeartbeatRequest();
    else this.#onJob(channel.slice(PREFIX.length));
  }
}
