/**
 * What running jobs say, kept until the next batch is sent. There is room for a bounded number. When
 * it is full, the oldest log line makes room.
 */

import type { ClaimedJob, JsonObject, Note, NoteKind } from "../job.ts";
import { redactObject } from "../redact/index.ts";
import { emit } from "../telemetry.ts";

const ROOM = 10_000;
const LARGEST_BATCH = 2_000;

export class Notes {
  readonly #notes = new Map<number, Note>(); // by number, oldest first
  readonly #progress = new Map<ClaimedJob, number>();
  #last = 0;
  #dropped = 0;

  get size(): number {
    return this.#notes.size;
  }

  add(job: ClaimedJob, kind: NoteKind, data: JsonObject): void {
    if (this.#notes.size >= ROOM) this.#dropOne();
    this.#last += 1;
    if (kind === "progress") {
      const earlier = this.#progress.get(job);
      if (earlier !== undefined) this.#notes.delete(earlier);
      this.#progress.set(job, this.#last);
    }
    const { tenant_id, job_id, lease } = job;
    this.#notes.set(this.#last, { tenant_id, job_id, lease, kind, data });
  }

  /** The oldest, as many as go into one call. */
  take(): Note[] {
    if (this.#dropped > 0) {
      emit("notes.dropped", { notes: this.#dropped }, "warning");
      this.#dropped = 0;
    }
    const taken = [...this.#notes].slice(0, LARGEST_BATCH);
    for (const [number] of taken) this.#notes.delete(number);
    if (this.#notes.size === 0) this.#progress.clear();
    return taken.map(([, note]) => ({ ...note, data: redactObject(note.data) }));
  }

  #dropOne(): void {
    this.#dropped += 1;
    for (const [number, note] of this.#notes) {
      if (note.kind !== "log") continue;
      this.#notes.delete(number);
      return;
    }
    const [oldest] = this.#notes.keys();
    if (oldest !== undefined) this.#notes.delete(oldest);
  }
}
