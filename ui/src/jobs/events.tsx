/** The events of a job's history, oldest first. */

import { printShort } from "@/api/json";
import type { JobEvent } from "@/api/schema";
import { idEnd, shortId } from "@/parts/copy";
import { Panel } from "@/parts/page";
import { Ago } from "@/parts/time";

const QUIET = new Set(["log", "progress"]);
const MOST = 200;

export function Events({ events }: { events: JobEvent[] }) {
  const shown = events.filter((each) => !QUIET.has(each.kind)).slice(-MOST);
  return (
    <Panel title="Timeline">
      <ol className="py-2">
        {shown.map((event, index) => (
          <li
            key={`${event.at}${event.kind}${index + 1}`}
            className="flex items-baseline gap-3 px-4 py-1"
          >
            <span className="w-20 shrink-0 text-faint text-xs">
              <Ago at={event.at} />
            </span>
            <span className="shrink-0 font-medium">{event.kind.replaceAll("_", " ")}</span>
            {event.actor && <span className="shrink-0 text-muted">by {event.actor}</span>}
            <span className="min-w-0 truncate text-muted" title={describeEvent(event)}>
              {describeEvent(event)}
            </span>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function describeEvent({ kind, data }: JobEvent): string {
  if (data === null || typeof data !== "object" || Array.isArray(data))
    return data == null ? "" : printShort(data);
  const given = data as Record<string, unknown>;
  if (kind === "attempt_started")
    return `attempt ${given.attempt} on ${idEnd(String(given.worker_id))}`;
  if (kind === "attempt_ended")
    return `attempt ${given.attempt}, ${String(given.outcome).replaceAll("_", " ")}`;
  if (kind === "step") return `${formatValue(given.name)}${given.timed_out ? ", timed out" : ""}`;
  return Object.entries(given)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name} ${formatValue(value)}`)
    .join(", ");
}

function formatValue(value: unknown): string {
  return typeof value === "string" ? shortId(value) : printShort(value);
}
