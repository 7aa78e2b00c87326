/**
 * The heartbeat loop: periodic calls of a worker, in sequence over one connection. It extends
 * leases, reaps expired leases of other workers, advances bulk operations, and creates partitions
 * of the history ahead of time.
 */

import {
  advanceOperations,
  type Call,
  ensurePartitions,
  heartbeatJobs,
  reapJobs,
} from "../calls/index.ts";
import type { BackgroundLoop } from "../db/background-loop.ts";
import type { MonitoredLink } from "../db/outage.ts";
import { Unavailable } from "../errors.ts";
import { emit } from "../observability/logs.ts";
import type { Heartbeat, WorkerCommand } from "../types/jobs.ts";
import { now } from "./clock.ts";
import type { LeaseTable } from "./leases.ts";

const REAP_S = 1.9;
const REAPED_AT_ONCE = 500;
const PARTITIONS_S = 3600;
const MAX_HEARTBEAT = 5_000;
const OPERATE_S = 0.1;
/** Time until the next heartbeat after one that could not extend a lease. */
const HELD_S = 1;

export interface HeartbeatSettings {
  readonly workerId: string;
  readonly leaseS: number;
  readonly heartbeatS: number;
  /** Repeated if the database does not know this worker. */
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
  /** Whether the last heartbeat could not extend a lease. */
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
    if (await loop.waitForWake(Math.max(0, dueAt - now()))) this.#wasWoken = true;
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
    // A wake-up may concern a job that has just started; otherwise new leases need no heartbeat
    // yet.
    const asksAll = this.#wasWoken || this.#wasHeld;
    const tokens = this.#leases.tokens(asksAll ? 0 : heartbeatS / 2);
    let wasHeld = false;
    for (let start = 0; start < Math.max(1, tokens.length); start += MAX_HEARTBEAT) {
      const batch = tokens.slice(start, start + MAX_HEARTBEAT);
      const sentAt = now();
      const result = await this.#requestHeartbeat(heartbeatJobs(workerId, batch, leaseS));
      if (this.#leases.renew(sentAt, result.jobs)) wasHeld = true;
      if (result.command === "unknown") await this.#link.run(registration);
      onCommand(result.command);
    }
    this.#wasWoken = false;
    this.#wasHeld = wasHeld;
    this.#beatAt = now() + addJitter(wasHeld ? Math.min(HELD_S, heartbeatS) : heartbeatS);
  }

  async #requestHeartbeat(call: Call<Heartbeat>): Promise<Heartbeat> {
    this.#leases.isUnanswered = true;
    try {
      const result = await this.#link.run(call);
      this.#leases.isUnanswered = false;
      return result;
    } catch (error) {
      this.#leases.isUnanswered = error instanceof Unavailable;
      throw error;
    }
  }

  /** Advance a due operation by one step. While operations are due, the next step follows soon. */
  async #advanceOperations(): Promise<void> {
    if ((await this.#link.run(advanceOperations())) > 0) {
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
  // Never longer than the interval, because a lease lasts only three heartbeats.
  return seconds * (0.9 + 0.1 * Math.random());
}
