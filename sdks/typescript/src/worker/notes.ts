/**
 * Buffer of running jobs' notes (log lines, progress, events) for the next batch. Its size is
 * bounded: when it is full, the oldest log line is dropped.
 */

import { emit } from "../observability/logs.ts";
import { estimateSize, redactInBackground } from "../redact/background.ts";
import { jobScope } from "../redact/index.ts";
import type { ClaimedJob, JsonObject, Note, NoteKind } from "../types/jobs.ts";

const ROOM = 10_000;
const LARGEST_BATCH = 2_000;
// In characters.
const HEAVIEST_BATCH = 1024 ** 2;

interface Kept {
  readonly note: Note;
  readonly job: ClaimedJob;
}

export class NoteBuffer {
  readonly #notes = new Map<number, Kept>(); // by number, oldest first
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
    const note = { tenant_id, job_id, lease, kind, data };
    this.#notes.set(this.#last, { note, job });
  }

  /** Return the oldest notes that fit into one call, redacted. */
  async take(): Promise<Note[]> {
    if (this.#dropped > 0) {
      emit("notes.dropped", { notes: this.#dropped }, "warning");
      this.#dropped = 0;
    }
    const taken: Kept[] = [];
    let weight = 0;
    for (const [number, kept] of this.#notes) {
      if (taken.length >= LARGEST_BATCH || weight >= HEAVIEST_BATCH) break;
      this.#notes.delete(number);
      taken.push(kept);
      weight += estimateSize(kept.note.data);
    }
    if (this.#notes.size === 0) this.#progress.clear();
    const shown = await redactInBackground(
      taken.map(({ note, job }) => [{ value: note.data }, jobScope(job)]),
    );
    return taken.map(({ note }, place) => ({ ...note, data: shown[place] as JsonObject }));
  }

  #dropOne(): void {
    this.#dropped += 1;
    for (const [number, { note }] of this.#notes) {
      if (note.kind !== "log") continue;
      this.#notes.delete(number);
      return;
    }
    const [oldest] = this.#notes.keys();
    if (oldest !== undefined) this.#notes.delete(oldest);
  }
}
