/**
 * Finds and kills the processes of a job: its process group, and descendants that have left the
 * group.
 */

import { readdirSync, readFileSync } from "node:fs";

/** The variable that identifies the processes of a job; all descendants inherit it. */
export const MARK_VARIABLE = "JOBFORGE_JOB";

/** Kill the process, its group, and all processes with the mark. */
export function killTree(pid: number, mark: string): void {
  killOne(-pid);
  // A process may fork while it is being killed, so repeat until none is left.
  for (let round = 0; round < 5; round++) {
    const found = findMarked(mark);
    if (found.length === 0) return;
    for (const each of found) killOne(each);
  }
}

function killOne(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has already ended.
  }
}

function findMarked(mark: string): number[] {
  const needle = `${MARK_VARIABLE}=${mark}`;
  return listProcesses().filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "latin1").includes(needle);
    } catch {
      return false; // owned by another user, or ended
    }
  });
}

function listProcesses(): number[] {
  try {
    return readdirSync("/proc")
      .map(Number)
      .filter((pid) => pid > 1 && pid !== process.pid);
  } catch {
    return []; // without /proc, only the group is killed
  }
}
