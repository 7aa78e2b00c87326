import {
  CircleCheck,
  CircleDashed,
  CircleSlash,
  CircleX,
  Copy,
  Filter,
  type LucideIcon,
} from "lucide-react";

const LOOKS: Record<string, [string, LucideIcon, string]> = {
  enqueued: ["Job created", CircleCheck, "text-ok"],
  pending: ["Pending", CircleDashed, "text-muted"],
  skipped: ["Skipped", CircleSlash, "text-faint"],
  deduplicated: ["Deduplicated", Copy, "text-faint"],
  filtered: ["Filtered out", Filter, "text-faint"],
  failed: ["Failed", CircleX, "text-bad"],
  delivered: ["Delivered", CircleCheck, "text-ok"],
};

/** The outcome of a firing, an event or a webhook message. */
export function Outcome({ name, count }: { name: string; count?: number }) {
  const [label, Icon, color] = LOOKS[name] ?? [name, CircleDashed, "text-muted"];
  return (
    <span
      className={`inline-flex items-center gap-1.5 align-bottom whitespace-nowrap font-medium ${color}`}
    >
      <Icon size={14} strokeWidth={2.25} aria-hidden className="shrink-0" />
      {count !== undefined && <span className="num">{count}</span>}
      {count !== undefined ? label.toLowerCase() : label}
    </span>
  );
}
