/**
 * An app whose job searches for credentials everywhere that a process of its user can read without
 * attaching to another process. tests/integration/test_credentials.py runs it.
 */

import { closeSync, constants, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { z } from "zod";
import { JobForge } from "../src/index.ts";

export const jf = new JobForge();

// Written so that this source code does not match.
const CANARY = /kan[a]ri[0-9a-f]{16}/g;

const PARAMS = z.object({ pids: z.array(z.number()), files: z.array(z.string()) });

export const scan = jf.job(
  "scan_in_typescript",
  { queue: "typescript", params: PARAMS },
  async (ctx, { pids, files }) => {
    const found: [string, string][] = [];
    const look = (place: string, read: () => string) => {
      try {
        for (const [hit] of read().matchAll(CANARY)) {
          found.push([place, [...hit].reverse().join("")]);
        }
      } catch {
        // The file is not readable.
      }
    };
    const own = [process.pid, process.ppid, ...pids];
    const around = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
    for (const pid of around) {
      for (const file of ["environ", "cmdline"]) {
        look(`/proc/${pid}/${file}`, () => readFileSync(`/proc/${pid}/${file}`, "latin1"));
      }
    }
    for (const pid of own) {
      for (const number of descriptorsOf(pid)) {
        const path = `/proc/${pid}/fd/${number}`;
        look(path, () => contentOf(path));
      }
    }
    for (const file of files) look(file, () => readFileSync(file, "latin1"));
    look("process.env", () => JSON.stringify(process.env));
    const names = ["key", "key.previous", "key_file"];
    for (const name of names) {
      const given = await ctx.secret(name).catch(String);
      look(`ctx.secret ${name}`, () => given);
    }
    process.kill(process.ppid, "SIGUSR1"); // opens the debugger unless it is refused
    // The count does not depend on the number of processes: environments, arguments, process.env
    // and the debugger count once each.
    return { found, tried: 4 + own.length + files.length + names.length };
  },
);

function descriptorsOf(pid: number): readonly string[] {
  try {
    return readdirSync(`/proc/${pid}/fd`);
  } catch {
    return [];
  }
}

function contentOf(path: string): string {
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const buffer = Buffer.alloc(2 ** 16);
    return buffer.toString("latin1", 0, readSync(fd, buffer, 0, buffer.length, 0));
  } finally {
    closeSync(fd);
  }
}
