/**
 * A thread of a job's process that ends it, and all that it started, when its lease has run out or
 * its worker is gone: also while the handler computes, and while the worker is frozen and could not.
 *
 * The worker writes the end of the lease as lines, in nanoseconds of the machine's monotonic clock,
 * and again whenever it is extended. The end of the stream is the end of the worker.
 */

import { Socket } from "node:net";
import { DEADLINE_FD } from "./messages.ts";

let timer: NodeJS.Timeout | undefined;
let heard = "";

function kill(): void {
  process.kill(-process.pid, "SIGKILL");
}

function watch(deadline: bigint): void {
  clearTimeout(timer);
  const leftMs = Number(deadline - process.hrtime.bigint()) / 1e6;
  if (leftMs <= 0) kill();
  else timer = setTimeout(() => watch(deadline), Math.min(leftMs, 2 ** 31 - 1));
}

const deadlines = new Socket({ fd: DEADLINE_FD, readable: true, writable: false });
deadlines.setEncoding("ascii");
deadlines.on("data", (text: string) => {
  const lines = (heard + text).split("\n");
  heard = lines.pop() ?? "";
  const last = lines.pop();
  if (last !== undefined) watch(BigInt(last));
});
deadlines.on("error", kill);
deadlines.on("close", kill);
