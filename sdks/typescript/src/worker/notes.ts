/**
 * Buffer of running jobs' notes (log lines, progress, events) for the next batch.
 *
 * Each job has a separate, bounded queue, and each batch takes notes from all jobs round robin. A
 * job that writes too many notes loses its own oldest log lines; it neither delays other jobs nor
 * drops their notes. A log line with the number of dropped notes replaces them.
 */

import { emit, jobFields } from "../observability/logs.ts";
import { estimateSize, redactInBackground } from "../redact/background.ts";
import { jobScope } from "../redact/index.ts";
import type { ClaimedJob, JsonObject, Note, NoteKind } from "../types/jobs.ts";

const MAX_NOTES = 10_000;
const MAX_JOB_NOTES = 1_000;
const MAX_CHARACTERS = 64 * 1024 ** 2;
const MAX_JOB_CHARACTERS = 16 * 1024 ** 2;
const MAX_BATCH = 2_000;
const MAX_BATCH_CHARACTERS = 1024 ** 2;

interface Limits {
  readonly maxNotes?: number;
  readonly maxJobNotes?: number;
  readonly maxCharacters?: number;
  readonly maxJobCharacters?: number;
}

interface BufferedNote {
  readonly kind: NoteKind;
  readonly data: JsonObject;
  readonly characters: number;
}

type TakenNote = readonly [job: ClaimedJob, kind: NoteKind, data: JsonObject];

export class NoteBuffer {
  readonly #limits: Required<Limits>;
  readonly #queues = new Map<ClaimedJob, JobNotes>(); // in round robin order, next first
  #count = 0;
  #characters = 0;
  #last = 0;

  constructor(limits: Limits = {}) {
    this.#limits = {
      maxNotes: limits.maxNotes ?? MAX_NOTES,
      maxJobNotes: limits.maxJobNotes ?? MAX_JOB_NOTES,
      maxCharacters: limits.maxCharacters ?? MAX_CHARACTERS,
      maxJobCharacters: limits.maxJobCharacters ?? MAX_JOB_CHARACTERS,
    };
  }

  /** Number of notes. */
  get size(): number {
    return this.#count;
  }

  /** The number of the newest note. */
  get last(): number {
    return this.#last;
  }

  /** Whether notes with this number or a lower one are left. */
  hasNotesUntil(number: number): boolean {
    for (const queue of this.#queues.values()) if (queue.first <= number) return true;
    return false;
  }

  add(job: ClaimedJob, kind: NoteKind, data: JsonObject): void {
    const queue = this.#queues.get(job) ?? new JobNotes();
    this.#queues.set(job, queue);
    this.#last += 1;
    this.#change(queue, () =>
      queue.add(this.#last, { kind, data, characters: estimateSize(data) }),
    );
    const { maxNotes, maxJobNotes, maxCharacters, maxJobCharacters } = this.#limits;
    while (queue.size > maxJobNotes || (queue.characters > maxJobCharacters && queue.size > 1)) {
      this.#drop(queue);
    }
    while (this.#count > maxNotes) this.#drop(this.#largest(({ size }) => size));
    while (this.#characters > maxCharacters)
      this.#drop(this.#largest(({ characters }) => characters));
  }

  /** Take the notes of the next batch, redacted: oldest first, round robin over the jobs. */
  async take(): Promise<Note[]> {
    const taken: TakenNote[] = [];
    let characters = 0;
    // The loop visits a job again that is added again, after all others.
    for (const [job, queue] of this.#queues) {
      if (taken.length >= MAX_BATCH || characters >= MAX_BATCH_CHARACTERS) break;
      this.#queues.delete(job);
      if (queue.size === 0) continue;
      if (queue.dropped > 0) taken.push(reportDropped(job, queue));
      this.#change(queue, () => {
        const note = queue.take();
        taken.push([job, note.kind, note.data]);
        characters += note.characters;
      });
      if (queue.size > 0) this.#queues.set(job, queue);
    }
    const redacted = await redactInBackground(
      taken.map(([job, , data]) => [{ value: data }, jobScope(job)]),
    );
    return taken.map(([{ tenant_id, job_id, lease }, kind], index) => {
      return { tenant_id, job_id, lease, kind, data: redacted[index] as JsonObject };
    });
  }

  #drop(queue: JobNotes): void {
    this.#change(queue, () => queue.dropOne());
  }

  /** Change the queue, and apply the difference to the totals. */
  #change(queue: JobNotes, change: () => void): void {
    const { size, characters } = queue;
    change();
    this.#count += queue.size - size;
    this.#characters += queue.characters - characters;
  }

  #largest(measure: (queue: JobNotes) => number): JobNotes {
    return [...this.#queues.values()].reduce((largest, each) =>
      measure(each) > measure(largest) ? each : largest,
    );
  }
}

/** The notes of one attempt by number, oldest first. */
class JobNotes {
  characters = 0;
  dropped = 0;
  readonly #notes = new Map<number, BufferedNote>();
  readonly #logs = new Set<number>();
  #progress = 0;

  get size(): number {
    return this.#notes.size;
  }

  get first(): number {
    return this.#notes.keys().next().value ?? Number.POSITIVE_INFINITY;
  }

  add(number: number, note: BufferedNote): void {
    if (note.kind === "progress") {
      this.#remove(this.#progress); // only the latest counts
      this.#progress = number;
    }
    if (note.kind === "log") this.#logs.add(number);
    this.#notes.set(number, note);
    this.characters += note.characters;
  }

  /** Drop the oldest log line, or the oldest note if there is none. */
  dropOne(): void {
    this.dropped += 1;
    this.#remove(this.#logs.keys().next().value ?? this.first);
  }

  take(): BufferedNote {
    const taken = this.#remove(this.first);
    if (taken === undefined) throw new Error("the job has no notes to take");
    return taken;
  }

  #remove(number: number): BufferedNote | undefined {
    const note = this.#notes.get(number);
    this.#notes.delete(number);
    this.#logs.delete(number);
    this.characters -= note?.characters ?? 0;
    return note;
  }
}

/** Return a log line that reports the dropped notes, and reset their count. */
function reportDropped(job: ClaimedJob, queue: JobNotes): TakenNote {
  const { dropped } = queue;
  queue.dropped = 0;
  emit("notes.dropped", { ...jobFields(job), notes: dropped }, "warning");
  const lines = `${dropped.toLocaleString("en-US")} lines dropped`;
  const message = `${lines}: the job wrote them faster than they can be stored`;
  return [job, "log", { level: "warning", message }];
}
