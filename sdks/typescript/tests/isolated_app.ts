/** An app with isolated jobs. The tests and the job processes import it. */

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync, writeSync } from "node:fs";
import { z } from "zod";
import { Dead, JobForge, type Json } from "../src/index.ts";

export const QUEUE = "isolated_tests";
export const jf = new JobForge(undefined, { tenant: "aaaaaaaa-0000-4000-8000-000000000003" });

const settings = { queue: QUEUE, retry: { base: 0.001, maxAttempts: 1 }, grace: 0.5 } as const;

export const look = jf.job("iso.look", settings, async (ctx) => {
  process.stdout.write("hello from inside, password=hunter2hunter2\n");
  ctx.progress(1, 1);
  return {
    pid: process.pid,
    attempt: ctx.attempt,
    home: process.env.HOME === process.cwd(),
    names: [...Object.keys(process.env), shown("self"), shown(String(process.ppid))]
      .flatMap((text) => text.split("\0"))
      .filter((name) => /PG|DATABASE|SECRET/.test(name)),
    secret: await ctx.secret("isolated"),
  };
});

/** Read the environment and arguments of a process from /proc. */
function shown(pid: string): string {
  const file = `/proc/${pid}/environ`;
  return existsSync(file) ? readFileSync(file, "utf8") : "";
}

export const child = jf.job(
  "iso.child",
  { ...settings, params: z.object({ n: z.number() }) },
  (_ctx, { n }) => n * 2,
);

export const parent = jf.job("iso.parent", settings, async (ctx) => {
  const handle = await child.using({ key: ctx.jobId }).enqueue({ n: 21 });
  return { id: handle.id, tenant: handle.tenantId };
});

export const speak = jf.job("iso.speak", settings, async () => await jf.emit("order.paid"));

export const fail = jf.job(
  "iso.fail",
  { ...settings, params: z.object({ how: z.string() }), memory: "64MB" },
  async (ctx, { how }) => {
    if (how === "dead") throw new Dead("no use");
    if (how === "exit") process.exit(3);
    if (how === "abort") process.abort();
    if (how === "memory") hoard([]);
    if (how === "deep") return nested(100);
    if (how === "wait") {
      await once(ctx.signal, "abort");
      ctx.check();
    }
    for (;;) if (how !== "busy") return undefined;
  },
);

const SOCKET_FD = 3; // to the worker

/** Write data to the worker's socket that only the SDK should write; `how` selects the data. */
export const attack = jf.job(
  "iso.attack",
  { ...settings, params: z.object({ how: z.string() }) },
  (_ctx, { how }) => {
    const line = (message: object | null) => `${JSON.stringify(message)}\n`;
    if (how === "null") write(line(null));
    if (how === "text") write("no JSON\n");
    if (how === "note") write(line({ kind: "note", note: "log", data: ["x".repeat(100)] }));
    if (how === "long note") {
      write(line({ kind: "note", note: "log", data: { text: "x".repeat(2 * 1024 ** 2) } }));
    }
    if (how === "verdict") write(line({ kind: "verdict", verdict: null, used: {} }));
    if (how === "step") write(line({ kind: "step", id: 1, name: "s", index: "0", result: 1 }));
    if (how === "endless") for (;;) write("x".repeat(1024 ** 2));
    if (how === "questions") {
      for (let id = 0; ; id++) write(line({ kind: "secret", id, name: "isolated" }));
    }
    // It never reads the worker's responses.
    for (;;) spawnSync("sleep", ["600"]);
  },
);

function write(text: string): void {
  for (let left = Buffer.from(text); left.length > 0; ) {
    try {
      left = left.subarray(writeSync(SOCKET_FD, left));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
    }
  }
}

/** Send many requests at once, and compute before reading the responses. */
export const ask = jf.job("iso.ask", settings, async (ctx) => {
  const asked = Array.from({ length: 300 }, () => ctx.secret("isolated"));
  const until = performance.now() + 300;
  while (performance.now() < until);
  const answers = await Promise.all(asked);
  const refused = await Promise.resolve()
    .then(() => ctx.emit("large", "x".repeat(2 * 1024 ** 2)))
    .catch((error: Error) => error.message);
  return [answers.length, [...new Set(answers)], refused ?? null];
});

function nested(levels: number): Json {
  return levels === 0 ? null : [nested(levels - 1)];
}

function hoard(kept: object[]): never {
  for (;;) kept.push(Array.from({ length: 1000 }, () => ({})));
}

/** Start a process that leaves the job's group and computes until it is killed. */
export const breed = jf.job(
  "iso.breed",
  { ...settings, params: z.object({ file: z.string() }) },
  async (_ctx, { file }) => {
    const far = spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
    writeFileSync(file, String(far.pid));
    spawnSync("sleep", ["600"]);
  },
);

export function pidIn(file: string): number {
  return existsSync(file) ? Number(readFileSync(file, "utf8")) : 0;
}
