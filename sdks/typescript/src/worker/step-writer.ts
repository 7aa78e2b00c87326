/**
 * Stores the steps of running jobs in batches (group commit) while the jobs wait. Steps collect
 * while the previous batch is in flight. After a lost connection a batch is sent again as long as
 * the jobs hold their leases; the engine recognizes duplicates.
 */

import { saveSteps } from "../calls/index.ts";
import type { BackgroundLoop } from "../db/background-loop.ts";
import type { MonitoredLink } from "../db/outage.ts";
import { Contended, InvalidResult, LeaseLost, Unavailable } from "../errors.ts";
import { type ClaimedJob, type Json, leaseKey, type SaveStatus, type Step } from "../types/jobs.ts";
import type { LeaseTable } from "./leases.ts";

const MAX_BATCH = 100;
const REFUSED: Partial<Record<SaveStatus, string>> = {
  too_large: "the result is larger than 1 MiB, or nested more than 64 levels deep",
  too_many: "a job can have at most 1,000 steps and 16 MiB of results",
};

interface PendingStep {
  readonly step: Step;
  readonly end: (error: unknown) => void;
}

export class StepWriter {
  readonly #workerId: string;
  readonly #link: MonitoredLink;
  readonly #leases: LeaseTable;
  readonly #pending: PendingStep[] = [];
  #sending: PendingStep[] = [];
  #batchLimit = MAX_BATCH;

  constructor(workerId: string, link: MonitoredLink, leases: LeaseTable) {
    this.#workerId = workerId;
    this.#link = link;
    this.#leases = leases;
  }

  /** Resolves when the step is stored. */
  add({ tenant_id, job_id, lease }: ClaimedJob, name: string, index: number, result: Json) {
    return new Promise<void>((resolve, reject) => {
      const step = { tenant_id, job_id, lease, name, index, result };
      const end = (error: unknown) => (error === null ? resolve() : reject(error));
      this.#pending.push({ step, end });
    });
  }

  async step(loop: BackgroundLoop): Promise<void> {
    const room = this.#batchLimit - this.#sending.length;
    this.#sending.push(...this.#pending.splice(0, room));
    if (this.#sending.length === 0) {
      await loop.waitForWake();
      return;
    }
    try {
      const steps = this.#sending.map(({ step }) => step);
      const statuses = await this.#link.run(saveSteps(this.#workerId, steps));
      this.#sending.forEach((pending, number) => {
        this.#resolve(pending, statuses[number] ?? "lost");
      });
    } catch (error) {
      if (error instanceof Unavailable || error instanceof Contended) throw error;
      if (this.#sending.length > 1) {
        this.#halve();
        return;
      }
      this.#sending[0]?.end(error);
    }
    this.#sending = [];
    this.#batchLimit = Math.min(MAX_BATCH, this.#batchLimit * 2);
  }

  /** Halve the batch, so that the error of a bad step reaches only its own job. */
  #halve(): void {
    this.#batchLimit = Math.floor(this.#sending.length / 2);
    this.#pending.unshift(...this.#sending.splice(this.#batchLimit));
  }

  #resolve({ step, end }: PendingStep, status: SaveStatus): void {
    end(toError(step, status));
    if (status === "lost") this.#leases.markLost(new Set([leaseKey(step)]));
  }
}

/** Return the error for a step that was not stored. */
function toError(step: Step, status: SaveStatus): Error | null {
  if (status === "ok") return null;
  if (status === "lost") return new LeaseLost();
  return new InvalidResult(`Step '${step.name}' cannot be stored: ${REFUSED[status]}`, {
    field: "result",
  });
}
