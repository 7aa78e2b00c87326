/** The states of a job in the order of its lifecycle, with their descriptions. */

import {
  Ban,
  CircleCheck,
  CircleDashed,
  CircleDot,
  CircleX,
  Clock,
  Link2,
  type LucideIcon,
  OctagonX,
  Timer,
  Undo2,
  Unplug,
  Zap,
} from "lucide-react";

export type StateName =
  | "scheduled"
  | "blocked"
  | "queued"
  | "running"
  | "canceling"
  | "succeeded"
  | "canceled"
  | "dead"
  | "failed";

export const STATES: StateName[] = [
  "queued",
  "running",
  "scheduled",
  "blocked",
  "failed",
  "dead",
  "succeeded",
  "canceled",
  "canceling",
];

interface Look {
  label: string;
  icon: LucideIcon;
  /** Each color goes with a shape and a word, so that no information depends on color alone. */
  color: string;
}

export const LOOKS: Record<string, Look> = {
  scheduled: { label: "Scheduled", icon: Clock, color: "text-plan" },
  blocked: { label: "Blocked", icon: Link2, color: "text-warn" },
  queued: { label: "Queued", icon: CircleDashed, color: "text-muted" },
  running: { label: "Running", icon: CircleDot, color: "text-run" },
  canceling: { label: "Canceling", icon: Ban, color: "text-warn" },
  succeeded: { label: "Succeeded", icon: CircleCheck, color: "text-ok" },
  canceled: { label: "Canceled", icon: Ban, color: "text-faint" },
  dead: { label: "Dead", icon: OctagonX, color: "text-bad" },
  failed: { label: "Failed", icon: CircleX, color: "text-bad" },
  timed_out: { label: "Timed out", icon: Timer, color: "text-bad" },
  crashed: { label: "Crashed", icon: Zap, color: "text-bad" },
  lease_lost: { label: "Lease lost", icon: Unplug, color: "text-bad" },
  released: { label: "Released", icon: Undo2, color: "text-faint" },
  snoozed: { label: "Snoozed", icon: Clock, color: "text-plan" },
};

export const ENDED = new Set(["succeeded", "canceled", "dead"]);
export const CANCELABLE = new Set(["scheduled", "blocked", "queued", "running", "dead"]);
export const RETRYABLE = new Set(["succeeded", "canceled", "dead"]);
