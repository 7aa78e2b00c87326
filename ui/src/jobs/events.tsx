/** What became of a job and what was done to it, oldest first. */

import { printShort } from "@/api/json";
import type { JobEvent } from "@/api/schema";
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
            <span
              className="min-w-0 truncate font-mono text-faint text-xs"
              title={textOf(event.data)}
            >
              {textOf(event.data)}
            </span>
          </li>
        ))}
      </ol>
    </Panel>
  );
}

function textOf(data: unknown): string {
  if (
    data === null ||
    data === undefined ||
    (typeof data === "object" && Object.keys(data).length === 0)
  )
    return "";
  if (typeof data !== "object" || Array.isArray(data)) return printShort(data);
  return Object.entries(data)
    .filter(([, value]) => value !== null)
    .map(([name, value]) => `${name}=${typeof value === "string" ? value : printShort(value)}`)
    .join(" ");
}
