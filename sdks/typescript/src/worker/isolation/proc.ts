/** All that a job has started, found and killed: its group, and what has left that group. */

import { readdirSync, readFileSync } from "node:fs";

/** In the environment of a job's process and of all that descends from it. */
export const MARK_VARIABLE = "JOBFORGE_JOB";

/** Kills the process, its group, and whatever carries the mark wherever it has gone. */
export function killTree(pid: number, mark: string): void {
  killOne(-pid);
  // What is found may just be starting others: so again, until there is none.
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
    // It has ended by itself.
  }
}

function findMarked(mark: string): number[] {
  const needle = `${MARK_VARIABLE}=${mark}`;
  return listProcesses().filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "latin1").includes(needle);
    } catch {
      return false; // not ours, or gone
    }
  });
}

function listProcesses(): number[] {
  try {
    return readdirSync("/proc")
      .map(Number)
      .filter((pid) => pid > 1 && pid !== process.pid);
  } catch {
    return []; // no /proc: the group has to do
  }
}
