// What the program of a side does, for Node; program.py says what each command is.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const WARM = 20;
const LONGEST_MS = 30_000;
const MARKS = process.env.JOBFORGE_BENCH_MARKS;
const STEP = Number(process.env.JOBFORGE_BENCH_STEP ?? "1");
const SIZE = 8;

// The packages of a rival lie in an environment of its own.
export const load = createRequire(path.join(process.env.JOBFORGE_BENCH_MODULES, "x"));

const now = () => (performance.timeOrigin + performance.now()) / 1000;
const file = MARKS ? fs.openSync(MARKS, "a") : null;
let untilNext = 1;

export function mark() {
  untilNext -= 1;
  if (untilNext > 0) return;
  untilNext = STEP;
  if (file === null) return;
  const bytes = Buffer.alloc(SIZE);
  bytes.writeDoubleLE(now());
  fs.writeSync(file, bytes);
}

export async function main({ install, client, work }) {
  const [command, url, number] = process.argv.slice(2);
  if (command === "work") return work(url);
  if (command === "install") {
    await install(url);
    console.log("{}");
    return;
  }
  const { enqueue, enqueueMany, close } = await client(url);
  const measure = {
    bulk: () => bulk(enqueueMany, Number(number)),
    single: () => single(enqueue, Number(number)),
    latency: () => latency(enqueue, Number(number)),
  }[command];
  console.log(JSON.stringify(await measure()));
  await close();
}

async function bulk(enqueueMany, count) {
  const start = performance.now();
  await enqueueMany(count);
  return { seconds: (performance.now() - start) / 1000 };
}

async function single(enqueue, count) {
  for (let number = 0; number < WARM; number++) await enqueue(number);
  const start = performance.now();
  for (let number = 0; number < count; number++) await enqueue(number);
  return { seconds: (performance.now() - start) / 1000, bare_seconds: 0 };
}

async function latency(enqueue, count) {
  await enqueue(0);
  await started(1);
  const sent = [];
  for (let number = 0; number < count; number++) {
    await sleep(20 + 60 * Math.random());
    sent.push(now());
    await enqueue(number);
    await started(number + 2);
  }
  const bytes = fs.readFileSync(MARKS);
  return { latencies: sent.map((by, number) => bytes.readDoubleLE((number + 1) * SIZE) - by) };
}

async function started(jobs) {
  const deadline = performance.now() + LONGEST_MS;
  while (fs.statSync(MARKS).size < jobs * SIZE) {
    if (performance.now() > deadline) throw new Error(`job ${jobs} has not started`);
    await sleep(1);
  }
}
