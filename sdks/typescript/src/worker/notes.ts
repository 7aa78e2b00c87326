/**
 * Keeps the notes of running jobs until the next batch is sent.
 *
 * Each job has its own room, and each batch takes from all jobs in turn: a job that logs too much
 * loses its own oldest log lines, and no other job waits for it or loses anything. A log line in
 * their place has the number of dropped lines.
 */

import type { ClaimedJob, JsonObject, Note, NoteKind } from "../job.ts";
import { hideAside, weigh } from "../redact/background.ts";
import { jobScope } from "../redact/index.ts";
import { emit, fieldsOf } from "../telemetry.ts";

const ROOM = 10_000;
const ROOM_OF_JOB = 1_000;
// In characters.
const WEIGHT = 64 * 1024 ** 2;
const WEIGHT_OF_JOB = 16 * 1024 ** 2;
const LARGEST_BATCH = 2_000;
const HEAVIEST_BATCH = 1024 ** 2;

interface Limits {
  readonly room?: number;
  readonly roomOfJob?: number;
  readonly weight?: number;
  readonly weightOfJob?: number;
}

interface Kept {
  readonly kind: NoteKind;
  readonly data: JsonObject;
  readonly weight: number;
}

type Taken = readonly [job: ClaimedJob, kind: NoteKind, data: JsonObject];

export class Notes {
  readonly #limits: Required<Limits>;
  readonly #queues = new Map<ClaimedJob, Queue>(); // the job whose turn it is comes first
  #count = 0;
  #weight = 0;
  #last = 0;

  constructor(limits: Limits = {}) {
    this.#limits = {
      room: limits.room ?? ROOM,
      roomOfJob: limits.roomOfJob ?? ROOM_OF_JOB,
      weight: limits.weight ?? WEIGHT,
      weightOfJob: limits.weightOfJob ?? WEIGHT_OF_JOB,
    };
  }

  get size(): number {
    return this.#count;
  }

  /** The number of the newest note. */
  get last(): number {
    return this.#last;
  }

  /** Whether a note is left that was added when `last` was this number or lower. */
  hasUntil(number: number): boolean {
    for (const queue of this.#queues.values()) if (queue.first <= number) return true;
    return false;
  }

  add(job: ClaimedJob, kind: NoteKind, data: JsonObject): void {
    let queue = this.#queues.get(job);
    if (queue === undefined) {
      queue = new Queue();
      this.#queues.set(job, queue);
    }
    this.#last += 1;
    const own = queue;
    this.#change(own, () => own.add(this.#last, { kind, data, weight: weigh(data) }));
    const { room, roomOfJob, weight, weightOfJob } = this.#limits;
    while (own.size > roomOfJob || (own.weight > weightOfJob && own.size > 1)) this.#drop(own);
    while (this.#count > room) this.#drop(this.#largest(({ size }) => size));
    while (this.#weight > weight) this.#drop(this.#largest((each) => each.weight));
  }

  /** The notes of the next call, redacted: the oldest note of each job, one job after another. */
  async take(): Promise<Note[]> {
    const taken: Taken[] = [];
    let weight = 0;
    // A job whose turn is over is added again, so this visits it again after all others.
    for (const [job, queue] of this.#queues) {
      if (taken.length >= LARGEST_BATCH || weight >= HEAVIEST_BATCH) break;
      this.#queues.delete(job);
      if (queue.size === 0) continue;
      if (queue.dropped > 0) taken.push(report(job, queue));
      this.#change(queue, () => {
        const kept = queue.take();
        taken.push([job, kept.kind, kept.data]);
        weight += kept.weight;
      });
      if (queue.size > 0) this.#queues.set(job, queue);
    }
    const shown = await hideAside(taken.map(([job, , data]) => [{ value: data }, jobScope(job)]));
    return taken.map(([{ tenant_id, job_id, lease }, kind], place) => {
      return { tenant_id, job_id, lease, kind, data: shown[place] as JsonObject };
    });
  }

  #drop(queue: Queue): void {
    this.#change(queue, () => queue.dropOne());
  }

  #change(queue: Queue, act: () => void): void {
    const { size, weight } = queue;
    act();
    this.#count += queue.size - size;
    this.#weight += queue.weight - weight;
  }

  #largest(measure: (queue: Queue) => number): Queue {
    return [...this.#queues.values()].reduce((most, each) =>
      measure(each) > measure(most) ? each : most,
    );
  }
}

/** The notes of one run of a job, by number, oldest first. */
class Queue {
  weight = 0;
  dropped = 0;
  readonly #notes = new Map<number, Kept>();
  readonly #logs = new Set<number>();
  #progress = 0;

  get size(): number {
    return this.#notes.size;
  }

  get first(): number {
    return this.#notes.keys().next().value ?? Number.POSITIVE_INFINITY;
  }

  add(number: number, note: Kept): void {
    if (note.kind === "progress") {
      this.#remove(this.#progress); // only the latest counts
      this.#progress = number;
    }
    if (note.kind === "log") this.#logs.add(number);
    this.#notes.set(number, note);
    this.weight += note.weight;
  }

  /** Discard the oldest log line, or else the oldest note. */
  dropOne(): void {
    this.dropped += 1;
    this.#remove(this.#logs.keys().next().value ?? this.first);
  }

  take(): Kept {
    const taken = this.#remove(this.first);
    if (taken === undefined) throw new Error("an empty queue of notes has no turn");
    return taken;
  }

  #remove(number: number): Kept | undefined {
    const note = this.#notes.get(number);
    this.#notes.delete(number);
    this.#logs.delete(number);
    this.weight -= note?.weight ?? 0;
    return note;
  }
}

/** A log line in place of those that were dropped. */
function report(job: ClaimedJob, queue: Queue): Taken {
  const { dropped } = queue;
  queue.dropped = 0;
  emit("notes.dropped", { ...fieldsOf(job), notes: dropped }, "warning");
  const lines = `${dropped.toLocaleString("en-US")} lines dropped`;
  const message = `${lines}: the job wrote them faster than they can be stored`;
  return [job, "log", { level: "warning", message }];
}
