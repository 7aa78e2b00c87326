/** Formats limits as text. */

const NONE = "none";

interface Limited {
  max_running?: number | null;
  max_running_per_key?: number | null;
  rate_limit?: number | null;
  rate_period_s?: number | null;
  rate_limit_per_key?: number | null;
  rate_period_per_key_s?: number | null;
  max_pending?: number | null;
}

/** For tables: missing limits are dimmed. */
export function Limits({ row }: { row: Limited }) {
  const words = limitsOf(row);
  return <span className={words === NONE ? "text-faint" : ""}>{words}</span>;
}

export function limitsOf(row: Limited): string {
  const parts: string[] = [];
  if (row.max_running != null) parts.push(`${row.max_running} running`);
  if (row.max_running_per_key != null) parts.push(`${row.max_running_per_key} running per key`);
  if (row.rate_limit != null) parts.push(`${row.rate_limit} ${period(row.rate_period_s)}`);
  if (row.rate_limit_per_key != null)
    parts.push(`${row.rate_limit_per_key} ${period(row.rate_period_per_key_s)} per key`);
  if (row.max_pending != null) parts.push(`${row.max_pending} waiting`);
  return parts.join(", ") || NONE;
}

function period(seconds: number | null | undefined): string {
  if (seconds == null || seconds === 1) return "per second";
  if (seconds === 60) return "per minute";
  if (seconds === 3600) return "per hour";
  return `per ${seconds} s`;
}
