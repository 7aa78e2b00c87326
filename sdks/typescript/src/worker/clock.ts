/** The worker's own clock, in seconds: one that goes on while the machine sleeps. */

import { uptime } from "node:os";

// Node's own clock stands still in a suspended machine; the time since boot does not (on Linux).
const CAN_SLEEP = process.platform === "linux";
const START = performance.now() / 1000;
const START_UPTIME = CAN_SLEEP ? uptime() : 0;
// What the two clocks differ by in their steps.
const NOISE_S = 0.5;
let slept = 0;

export function now(): number {
  return performance.now() / 1000 + slept;
}

/** Looks whether the machine has slept; before it is decided what a lease is still good for. */
export function resync(): void {
  if (!CAN_SLEEP) return;
  const apart = uptime() - START_UPTIME - (performance.now() / 1000 - START);
  if (apart > slept + NOISE_S) slept = apart;
}
