/**
 * The worker's monotonic clock in seconds, which also counts time while the machine is suspended
 * (Linux).
 */

import { uptime } from "node:os";

// Node's clock stops while the machine is suspended; the time since boot does not.
const CAN_MEASURE = process.platform === "linux";
const START = performance.now() / 1000;
const START_UPTIME = CAN_MEASURE ? uptime() : 0;
// The resolution of the two clocks; smaller differences are not a suspension.
const NOISE_S = 0.5;
let suspendedS = 0;

export function now(): number {
  return performance.now() / 1000 + suspendedS;
}

/**
 * Measure how long the machine was suspended. Call this before deciding whether leases have
 * expired.
 */
export function resync(): void {
  if (!CAN_MEASURE) return;
  const differenceS = uptime() - START_UPTIME - (performance.now() / 1000 - START);
  if (differenceS > suspendedS + NOISE_S) suspendedS = differenceS;
}
