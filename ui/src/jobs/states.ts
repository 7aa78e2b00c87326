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
  colour: string;
}

export const LOOKS: Record<string, Look> = {
  scheduled: { label: "Scheduled", icon: Clock, colour: "text-plan" },
  blocked: { label: "Blocked", icon: Link2, colour: "text-warn" },
  queued: { label: "Queued", icon: CircleDashed, colour: "text-muted" },
  running: { label: "Running", icon: CircleDot, colour: "text-run" },
  canceling: { label: "Canceling", icon: Ban, colour: "text-warn" },
  succeeded: { label: "Succeeded", icon: CircleCheck, colour: "text-ok" },
  canceled: { label: "Canceled", icon: Ban, colour: "text-faint" },
  dead: { label: "Dead", icon: OctagonX, colour: "text-bad" },
  failed: { label: "Failed", icon: CircleX, colour: "text-bad" },
  timed_out: { label: "Timed out", icon: Timer, colour: "text-bad" },
  crashed: { label: "Crashed", icon: Zap, colour: "text-bad" },
  lease_lost: { label: "Lease lost", icon: Unplug, colour: "text-bad" },
  released: { label: "Released", icon: Undo2, colour: "text-faint" },
  snoozed: { label: "Snoozed", icon: Clock, colour: "text-plan" },
};

export const ENDED = new Set(["succeeded", "canceled", "dead"]);
export const CANCELABLE = new Set(["scheduled", "blocked", "queued", "running", "dead"]);
export const RETRYABLE = new Set(["succeeded", "canceled", "dead"]);
