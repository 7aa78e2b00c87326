/**
 * Claims jobs for the free slots. After a full claim (a queue returned as many jobs as requested),
 * the next claim follows at once. After a claim that was not full, the claimer asks again after a
 * few growing pauses, because a notification may overtake the rows that it announces, and then
 * every `pollS`. While claims are full, the next claim is sent before the previous one has
 * returned: the database executes it while the worker reads and starts the jobs of the previous
 * claim.
 */

import { type Call, claimJobs, claimReadableJobs, isUnreadable } from "../calls/index.ts";
import type { BackgroundLoop } from "../db/background-loop.ts";
import type { MonitoredLink } from "../db/outage.ts";
import { NotFound } from "../errors.ts";
import type { ClaimedJob } from "../types/jobs.ts";
import { now } from "./clock.ts";
import type { ClaimBuffer } from "./launcher.ts";
import type { Settler } from "./settler.ts";
import type { Slots } from "./slots.ts";

const PAUSES_S = [0.005, 0.025, 0.125];
// The first claim after an idle period is small, so that its jobs run while more are fetched.
const FIRST_CLAIM = 100;
const MAX_CLAIM = 1_000;
const MAX_IN_FLIGHT = 2; // one that the database executes, and one that waits behind it

export interface ClaimSettings {
  readonly workerId: string;
  readonly registration: Call<void>;
  readonly leaseS: number;
  readonly pollS: number;
}

export class Claimer {
  claimed = 0;
  readonly #settings: ClaimSettings;
  readonly #link: MonitoredLink;
  readonly #slots: Slots;
  readonly #settler: Settler;
  readonly #claimBuffer: ClaimBuffer;
  readonly #onClaimed: () => void;
  readonly #inFlight: Promise<boolean>[] = [];
  #isFull = false;
  #pause = 0;
  #room = FIRST_CLAIM;
  #requestedInFlight = 0; // by the claims in flight

  constructor(
    settings: ClaimSettings,
    link: MonitoredLink,
    parts: {
      readonly slots: Slots;
      readonly settler: Settler;
      readonly claimBuffer: ClaimBuffer;
      readonly onClaimed: () => void;
    },
  ) {
    this.#settings = settings;
    this.#link = link;
    this.#slots = parts.slots;
    this.#settler = parts.settler;
    this.#claimBuffer = parts.claimBuffer;
    this.#onClaimed = parts.onClaimed;
  }

  async step(loop: BackgroundLoop): Promise<void> {
    if (this.#inFlight.length === 0 && !this.#settler.hasRoomFor(this.#room)) {
      await loop.waitForWake(PAUSES_S[0]);
      return;
    }
    this.#sendClaims();
    const claim = this.#inFlight.shift();
    if (claim !== undefined) {
      this.#isFull = false; // until the claim returns
      this.#isFull = await claim;
      this.#room = this.#isFull ? Math.min(4 * this.#room, MAX_CLAIM) : FIRST_CLAIM;
      if (this.#inFlight.length > 0 || (this.#isFull && this.#slots.hasRoomForMore)) return;
    }
    const poll = this.#settings.pollS * (1 + 0.2 * Math.random());
    const pause = PAUSES_S[this.#pause] ?? poll;
    this.#pause += 1;
    if (await loop.waitForWake(pause)) this.#pause = 0;
  }

  /** Wait for the claims in flight. */
  async end(): Promise<void> {
    await Promise.allSettled(this.#inFlight);
  }

  #sendClaims(): void {
    const most = this.#isFull ? MAX_IN_FLIGHT : 1;
    while (
      this.#inFlight.length < most &&
      this.#settler.hasRoomFor(this.#requestedInFlight + this.#room)
    ) {
      const limits = this.#slots.limits(this.#room);
      if (limits.size === 0) return;
      const claim = this.#claim(limits);
      claim.catch(() => undefined); // its step awaits the claim later
      this.#inFlight.push(claim);
    }
  }

  /** Claim jobs; return whether one of the queues may have more. */
  async #claim(limits: ReadonlyMap<string, number>): Promise<boolean> {
    const { workerId, registration, leaseS } = this.#settings;
    const sentAt = now();
    const requested = this.#slots.reserve(limits);
    this.#requestedInFlight += requested;
    let jobs: readonly ClaimedJob[] | null = null;
    try {
      jobs = await this.#run(claimJobs(workerId, limits, leaseS));
    } catch (error) {
      if (!(error instanceof NotFound)) throw error;
      // The registration is gone, for example because the database was restored.
      await this.#link.run(registration);
      return false;
    } finally {
      this.#requestedInFlight -= requested;
      if (jobs === null) this.#slots.applyClaim(limits, null);
    }
    const isFull = this.#slots.applyClaim(limits, jobs);
    this.claimed += jobs.length;
    if (jobs.length > 0) {
      this.#claimBuffer.push({ jobs, deadline: sentAt + leaseS, started: 0 });
      this.#pause = 0;
      this.#onClaimed();
    }
    return isFull;
  }

  /** Run the claim. If Postgres cannot send one of its rows, run it again without such rows. */
  async #run(claim: Call<ClaimedJob[]>): Promise<ClaimedJob[]> {
    try {
      return await this.#link.run(claim);
    } catch (error) {
      if (!isUnreadable(error)) throw error;
    }
    return await this.#link.run(claimReadableJobs(claim));
  }
}
