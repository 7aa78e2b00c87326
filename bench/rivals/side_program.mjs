// Commands of a side's program, for Node; side_program.py describes each command.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const WARM = 20;
const LONGEST_MS = 30_000;
const START_TIMES = process.env.BENCH_START_TIMES;
const STEP = Number(process.env.BENCH_STEP ?? "1");
const DELAYS = process.env.BENCH_DELAYS;
const GATE = process.env.BENCH_GATE;
const OLDEST = 1e15; // greater numbers are times in microseconds, smaller ones count jobs
const TICK_S = 0.01;
const SIZE = 8;

// The packages of each job system are in a separate environment.
export const load = createRequire(path.join(process.env.BENCH_MODULES, "x"));

const now = () => (performance.timeOrigin + performance.now()) / 1000;
const file = START_TIMES ? fs.openSync(START_TIMES, "a") : null;
let untilNext = 1;

export const recordStart = DELAYS ? writeDelay : writeStart;

function writeStart() {
  untilNext -= 1;
  if (untilNext > 0) return;
  untilNext = STEP;
  write(now());
}

function writeDelay(sent) {
  if (sent > OLDEST) write(now() - sent / 1e6);
}

function write(value) {
  if (file === null) return;
  const bytes = Buffer.alloc(SIZE);
  bytes.writeDoubleLE(value);
  fs.writeSync(file, bytes);
}

export async function main({ install, client, work }) {
  const [command, url, ...numbers] = process.argv.slice(2);
  if (command === "work") return work(url);
  if (command === "install") {
    await install(url);
    console.log("{}");
    return;
  }
  const { enqueue, enqueueMany, close } = await client(url);
  const [count, seconds] = numbers.map(Number);
  const measure = {
    bulk: () => bulk(enqueueMany, count),
    single: () => single(enqueue, count),
    latency: () => latency(enqueue, count),
    steady: () => steady(enqueue, enqueueMany, count, seconds),
  }[command];
  console.log(JSON.stringify(await measure()));
  await close();
}

async function bulk(enqueueMany, count) {
  const start = performance.now();
  await enqueueMany(Array.from({ length: count }, (_, number) => number));
  return { seconds: (performance.now() - start) / 1000 };
}

async function single(enqueue, count) {
  for (let number = 0; number < WARM; number++) await enqueue(number);
  await waitForGate();
  const began = now();
  for (let number = 0; number < count; number++) await enqueue(number);
  const ended = now();
  return { seconds: ended - began, bare_seconds: 0, began, ended };
}

async function waitForGate() {
  if (!GATE) return;
  fs.writeFileSync(`${GATE}.${process.pid}`, "");
  const deadline = performance.now() + LONGEST_MS;
  while (!fs.existsSync(GATE)) {
    if (performance.now() > deadline) throw new Error(`${GATE} was not created`);
    await sleep(1);
  }
}

async function latency(enqueue, count) {
  await enqueue(0);
  await waitForStarts(1);
  const sent = [];
  for (let number = 0; number < count; number++) {
    await sleep(20 + 60 * Math.random());
    sent.push(now());
    await enqueue(number);
    await waitForStarts(number + 2);
  }
  const bytes = fs.readFileSync(START_TIMES);
  return { latencies: sent.map((by, number) => bytes.readDoubleLE((number + 1) * SIZE) - by) };
}

async function waitForStarts(jobs) {
  const deadline = performance.now() + LONGEST_MS;
  while (fs.statSync(START_TIMES).size < jobs * SIZE) {
    if (performance.now() > deadline) throw new Error(`job ${jobs} has not started`);
    await sleep(1);
  }
}

async function steady(enqueue, enqueueMany, rate, seconds) {
  const batch = Math.max(1, Math.round(rate * TICK_S));
  const start = performance.now();
  let sent = 0;
  while (sent < rate * seconds) {
    const due = start + (sent * 1000) / rate;
    if (due > performance.now()) await sleep(due - performance.now());
    const at = Math.floor(now() * 1e6);
    await (batch === 1 ? enqueue(at) : enqueueMany(Array(batch).fill(at)));
    sent += batch;
  }
  return { sent, seconds: (performance.now() - start) / 1000 };
}
