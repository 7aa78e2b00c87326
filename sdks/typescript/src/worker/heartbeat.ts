/**
 * What a worker does every few seconds: extend its leases, end those of dead workers, keep bulk
 * operations going and the partitions of the history ahead. All over one connection, one call after
 * the other.
 */

import {
  advanceOperations,
  type Call,
  ensurePartitions,
  heartbeatJobs,
  reapJobs,
} from "../calls/index.ts";
import type { BackgroundLoop } from "../db/loop.ts";
import type { MonitoredLink } from "../db/outage.ts";
import { Unavailable } from "../errors.ts";
import { emit } from "../observability/logs.ts";
import type { Heartbeat, WorkerCommand } from "../types/jobs.ts";
import { now } from "./clock.ts";
import type { LeaseTable } from "./leases.ts";

const REAP_S = 1.9;
const REAPED_AT_ONCE = 500;
const PARTITIONS_S = 3600;
const LARGEST_BEAT = 5_000;
const OPERATE_S = 0.1;
/** Until the next heartbeat, when the database could not extend a lease at once. */
const HELD_S = 1;

export interface HeartbeatSettings {
  readonly workerId: string;
  readonly leaseS: number;
  readonly heartbeatS: number;
  /** Repeated when the database does not know this worker any more. */
  readonly registration: Call<void>;
  readonly onCommand: (command: WorkerCommand) => void;
}

export class HeartbeatLoop {
  readonly #settings: HeartbeatSettings;
  readonly #link: MonitoredLink;
  readonly #leases: LeaseTable;
  readonly #reapS: number;
  #beatAt: number;
  #reapAt: number;
  #partitionsAt: number;
  #wasWoken = false;
  /** A lease could not be extended by the last heartbeat. */
  #wasHeld = false;

  constructor(settings: HeartbeatSettings, link: MonitoredLink, leases: LeaseTable) {
    this.#settings = settings;
    this.#link = link;
    this.#leases = leases;
    this.#reapS = Math.min(REAP_S, settings.leaseS / 2);
    this.#beatAt = now() + addJitter(settings.heartbeatS);
    this.#reapAt = now() + addJitter(this.#reapS);
    this.#partitionsAt = now() + addJitter(PARTITIONS_S);
  }

  async step(loop: BackgroundLoop): Promise<void> {
    const dueAt = Math.min(this.#beatAt, this.#reapAt, this.#partitionsAt);
    if (await loop.rest(Math.max(0, dueAt - now()))) this.#wasWoken = true;
    if (loop.isStopped) return;
    this.#leases.stopOverdue();
    if (this.#wasWoken || now() >= this.#beatAt) {
      await this.#sendHeartbeat();
      await this.#advanceOperations();
    }
    if (now() >= this.#reapAt) await this.#reap();
    if (now() >= this.#partitionsAt) {
      await this.#link.run(ensurePartitions());
      this.#partitionsAt = now() + addJitter(PARTITIONS_S);
    }
  }

  async #sendHeartbeat(): Promise<void> {
    const { workerId, leaseS, heartbeatS, registration, onCommand } = this.#settings;
    // Somebody rang because of a job that may have just begun; else young leases last.
    const asksAll = this.#wasWoken || this.#wasHeld;
    const tokens = this.#leases.tokens(asksAll ? 0 : heartbeatS / 2);
    let wasHeld = false;
    for (let start = 0; start < Math.max(1, tokens.length); start += LARGEST_BEAT) {
      const batch = tokens.slice(start, start + LARGEST_BEAT);
      const sentAt = now();
      const answer = await this.#requestHeartbeat(heartbeatJobs(workerId, batch, leaseS));
      if (this.#leases.renew(sentAt, answer.jobs)) wasHeld = true;
      if (answer.command === "unknown") await this.#link.run(registration);
      onCommand(answer.command);
    }
    this.#wasWoken = false;
    this.#wasHeld = wasHeld;
    this.#beatAt = now() + addJitter(wasHeld ? Math.min(HELD_S, heartbeatS) : heartbeatS);
  }

  async #requestHeartbeat(call: Call<Heartbeat>): Promise<Heartbeat> {
    this.#leases.isUnanswered = true;
    try {
      const answer = await this.#link.run(call);
      this.#leases.isUnanswered = false;
      return answer;
    } catch (error) {
      this.#leases.isUnanswered = error instanceof Unavailable;
      throw error;
    }
  }

  /** One step of an operation that is due; while there is one, the next soon. */
  async #advanceOperations(): Promise<void> {
    if (await this.#link.run(advanceOperations())) {
      this.#beatAt = Math.min(this.#beatAt, now() + OPERATE_S);
    }
  }

  async #reap(): Promise<void> {
    const reaped = await this.#link.run(reapJobs(REAPED_AT_ONCE));
    if (reaped > 0) emit("jobs.reaped", { jobs: reaped }, "warning");
    if (reaped < REAPED_AT_ONCE) this.#reapAt = now() + addJitter(this.#reapS);
  }
}

function addJitter(seconds: number): number {
  // Never longer: a lease is three beats.
  return seconds * (0.9 + 0.1 * Math.random());
}
