/**
 * Resource limits of a job's process. Node cannot set rlimits, so a shell sets the limits of open
 * files, file size and CPU time, and then executes Node. V8 gets a heap limit. The worker polls the
 * resident memory instead of limiting address space, because V8 reserves far more address space
 * than it uses.
 */

import { readFileSync } from "node:fs";
import type { ProcessLimits } from "../../sdk/definition-settings.ts";

const MIB = 1024 ** 2;
const PAGE = 4096;
const BLOCK = 512;
const CPU_OVERTIME_S = 2;

/**
 * Return the command that runs `argv` under these limits. They apply to each process of the job
 * separately.
 */
export function limitCommand(
  limits: ProcessLimits,
  argv: readonly string[],
): readonly [string, string[]] {
  const settings = [
    "-c 0",
    `-n ${limits.openFiles}`,
    `-f ${Math.ceil(limits.fileSizeBytes / BLOCK)}`,
    ...(limits.cpuS === null
      ? []
      : [`-H -t ${limits.cpuS + CPU_OVERTIME_S}`, `-S -t ${limits.cpuS}`]),
  ];
  // A limit that the system does not support, or that is already lower, is left unchanged.
  const script = `${settings.map((setting) => `ulimit ${setting} 2>/dev/null`).join("; ")}; exec "$@"`;
  return ["/bin/sh", ["-c", script, "sh", ...argv]];
}

/** Return Node's flag for the heap limit, so that an oversized heap is reported as such. */
export function heapFlag(limits: ProcessLimits): string {
  return `--max-old-space-size=${Math.max(16, Math.floor(limits.memoryBytes / MIB))}`;
}

/** Return the resident memory of a process; 0 if it is unknown. */
export function residentBytes(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, "ascii").split(" ")[1]) * PAGE;
  } catch {
    return 0;
  }
}

/** Return a key for the limits. Definitions with equal limits share warm processes. */
export function toProfile(limits: ProcessLimits): string {
  return JSON.stringify(limits);
}
