/**
 * What a job's process may use. Of files and time on the CPU a shell tells the kernel, because Node
 * cannot, and becomes Node. Of memory V8 is told for its heap; what a process has besides, its worker
 * looks at: the kernel would also count what V8 only keeps room for.
 */

import { readFileSync } from "node:fs";
import type { ProcessLimits } from "../../sdk/settings.ts";

const MIB = 1024 ** 2;
const PAGE = 4096;
const BLOCK = 512;
const CPU_OVERTIME_S = 2;

/** The command under these limits; each process of the job is counted by itself. */
export function limitCommand(
  limits: ProcessLimits,
  argv: readonly string[],
): readonly [string, string[]] {
  const wishes = [
    "-c 0",
    `-n ${limits.openFiles}`,
    `-f ${Math.ceil(limits.fileSizeBytes / BLOCK)}`,
    ...(limits.cpuS === null
      ? []
      : [`-H -t ${limits.cpuS + CPU_OVERTIME_S}`, `-S -t ${limits.cpuS}`]),
  ];
  // A limit that this system does not have, or has lower already, is left as it is.
  const script = `${wishes.map((wish) => `ulimit ${wish} 2>/dev/null`).join("; ")}; exec "$@"`;
  return ["/bin/sh", ["-c", script, "sh", ...argv]];
}

/** What V8 is told, so that a heap that grows too large ends as such. */
export function heapFlag(limits: ProcessLimits): string {
  return `--max-old-space-size=${Math.max(16, Math.floor(limits.memoryBytes / MIB))}`;
}

/** How much of the machine's memory a process has now; 0 when that cannot be told. */
export function residentBytes(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, "ascii").split(" ")[1]) * PAGE;
  } catch {
    return 0;
  }
}

/** Which definitions can share processes that were started ahead. */
export function toProfile(limits: ProcessLimits): string {
  return JSON.stringify(limits);
}
