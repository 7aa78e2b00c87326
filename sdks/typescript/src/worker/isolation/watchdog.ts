/**
 * A thread of a job's process that kills the job's process group when the lease has expired or the
 * worker is gone. It also works while the handler blocks the event loop, or while the worker is
 * suspended and cannot kill the process.
 *
 * The worker writes each new deadline as a line, in nanoseconds of the machine's monotonic clock.
 * The stream ends when the worker ends.
 */

import { Socket } from "node:net";
import { DEADLINE_FD } from "./messages.ts";

let timer: NodeJS.Timeout | undefined;
let received = "";

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
  const lines = (received + text).split("\n");
  received = lines.pop() ?? "";
  const last = lines.pop();
  if (last !== undefined) watch(BigInt(last));
});
deadlines.on("error", kill);
deadlines.on("close", kill);
