/** The buffer of running jobs' notes: each job has a separate queue. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { ClaimedJob, type NoteKind } from "../src/types/jobs.ts";
import { NoteBuffer } from "../src/worker/notes.ts";

function createJob(): ClaimedJob {
  return new ClaimedJob([randomUUID(), randomUUID(), "1", "flood", "1", "q", "1", "1"]);
}

/** Return kind and number of each note in the next batch. */
async function takeNumbers(notes: NoteBuffer): Promise<readonly (readonly [NoteKind, unknown])[]> {
  return (await notes.take()).map(({ kind, data }) => [kind, data.n] as const);
}

test("notes come in the order in which they were added, with the latest progress only", async () => {
  const notes = new NoteBuffer();
  const [one, other] = [createJob(), createJob()];
  notes.add(one, "progress", { n: 0 });
  notes.add(one, "log", { n: 1 });
  notes.add(one, "progress", { n: 2 });
  notes.add(one, "event", { n: 3 });
  notes.add(other, "progress", { n: 10 });
  assert.equal(notes.size, 4);
  const batch = await notes.take();
  const numbers = (each: ClaimedJob) =>
    batch.filter(({ job_id }) => job_id === each.job_id).map(({ data }) => data.n);
  assert.deepEqual([numbers(one), numbers(other)], [[1, 2, 3], [10]]);
  assert.deepEqual(await notes.take(), []);
  notes.add(one, "progress", { n: 4 });
  assert.deepEqual(await takeNumbers(notes), [["progress", 4]]);
});

test("a flood of log lines costs only the job that writes them", async () => {
  const notes = new NoteBuffer();
  const [quiet, flooder] = [createJob(), createJob()];
  for (let n = 0; n < 200; n++) notes.add(quiet, "log", { n });
  for (let n = 0; n < 20_000; n++) notes.add(flooder, "log", { n });
  const batch = await notes.take();
  assert.equal(notes.size, 0);
  const lines = (each: ClaimedJob) =>
    batch.filter(({ job_id }) => job_id === each.job_id).map(({ data }) => data);
  assert.deepEqual(
    lines(quiet).map(({ n }) => n),
    Array.from({ length: 200 }, (_, n) => n),
  );
  const [dropped, ...kept] = lines(flooder);
  assert.match(String(dropped?.message), /^19,000 lines dropped: /);
  assert.deepEqual([kept.length, kept[0]?.n, kept.at(-1)?.n], [1_000, 19_000, 19_999]);
});

test("when a job has no room left, its oldest log line goes first, then its oldest note", async () => {
  const notes = new NoteBuffer({ maxJobNotes: 3 });
  const one = createJob();
  notes.add(one, "event", { n: 0 });
  for (let n = 1; n < 4; n++) notes.add(one, "log", { n });
  const expected = [
    ["log", undefined],
    ["event", 0],
    ["log", 2],
    ["log", 3],
  ];
  assert.deepEqual(await takeNumbers(notes), expected);
  for (let n = 0; n < 4; n++) notes.add(one, "event", { n });
  assert.deepEqual(
    (await takeNumbers(notes)).slice(1),
    [1, 2, 3].map((n) => ["event", n]),
  );
});

test("the job with the most notes makes room when all jobs together have too many", async () => {
  const notes = new NoteBuffer({ maxNotes: 100 });
  const [flooder, other] = [createJob(), createJob()];
  notes.add(other, "log", { n: 0 });
  for (let n = 0; n < 1_000; n++) notes.add(flooder, "log", { n });
  assert.equal(notes.size, 100);
  const batch = await notes.take();
  const others = batch.filter(({ job_id }) => job_id === other.job_id);
  assert.deepEqual(
    others.map(({ data }) => data),
    [{ n: 0 }],
  );
});

test("long notes are bounded by their length, per job and for all jobs", () => {
  const notes = new NoteBuffer({ maxJobCharacters: 1_000 });
  const [flooder, other] = [createJob(), createJob()];
  notes.add(other, "log", { n: 0 });
  for (let n = 0; n < 100; n++) notes.add(flooder, "log", { n, text: "x".repeat(200) });
  assert.ok(notes.size < 10);
  const few = new NoteBuffer({ maxCharacters: 1_000 });
  for (let n = 0; n < 10; n++) few.add(createJob(), "log", { text: "x".repeat(400) });
  assert.equal(few.size, 2);
});

test("jobs take turns in a batch, and what was there before is known to be taken", async () => {
  const notes = new NoteBuffer();
  const [flooder, other] = [createJob(), createJob()];
  for (let n = 0; n < 300; n++) notes.add(flooder, "log", { n, text: "x".repeat(10_000) });
  notes.add(other, "log", { n: 0 });
  const { last } = notes;
  const batch = await notes.take();
  assert.ok(batch.length < 300);
  assert.ok(batch.some(({ job_id }) => job_id === other.job_id));
  assert.ok(notes.hasNotesUntil(last));
  while (notes.size > 0) await notes.take();
  notes.add(other, "log", { n: 1 });
  assert.ok(!notes.hasNotesUntil(last));
});
