import { Pause, Play, Radio, Unplug } from "lucide-react";
import { status as live, togglePaused } from "@/live/live";

const LOOKS = {
  connecting: {
    label: "Connecting",
    icon: Radio,
    color: "text-faint",
    hint: "Connecting to live updates.",
  },
  live: {
    label: "Live",
    icon: Radio,
    color: "text-ok",
    hint: "Live updates are on. Click to pause.",
  },
  paused: {
    label: "Paused",
    icon: Pause,
    color: "text-warn",
    hint: "Live updates paused. Click to resume.",
  },
  stale: {
    label: "Stale",
    icon: Unplug,
    color: "text-bad",
    hint: "Live updates disconnected. Polling every few seconds.",
  },
};

export function LivePill() {
  const status = live.use();
  const { label, icon, color, hint } = LOOKS[status];
  const Icon = status === "paused" ? Play : icon;
  return (
    <button
      type="button"
      title={`${hint} (.)`}
      aria-pressed={status === "paused"}
      onClick={togglePaused}
      className={`inline-flex h-6 items-center gap-1.5 rounded-full border border-line px-2.5 font-medium text-xs hover:bg-hover ${color}`}
    >
      <Icon size={12} aria-hidden />
      {label}
    </button>
  );
}
