/** A trigger that is being edited, as the strings of its form fields. */

import { print, printShort } from "@/api/json";
import type { CatchUp, Overlap, Trigger, TriggerType } from "@/api/schema";

export interface Condition {
  path: string;
  op: string;
  /** JSON. Text that is not valid JSON is a string. */
  value: string;
}

export interface Draft {
  type: TriggerType;
  label: string;
  definition: string;
  queue: string;
  priority: string;
  /** JSON; null if nothing was entered yet. */
  payload: string | null;
  cron: string;
  timezone: string;
  catchUp: CatchUp;
  catchUpLimit: string;
  overlap: Overlap;
  jitter: string;
  event: string;
  conditions: Condition[];
  dedupeWindow: string;
  dedupeKey: string;
}

export function newDraft(given: { type?: string; event?: string; definition?: string }): Draft {
  return {
    type: given.type === "event" ? "event" : "schedule",
    label: "",
    definition: given.definition ?? "",
    queue: "",
    priority: "0",
    payload: null,
    cron: "0 9 * * *",
    timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    catchUp: "last",
    catchUpLimit: "10",
    overlap: "allow",
    jitter: "0",
    event: given.event ?? "",
    conditions: [],
    dedupeWindow: "300",
    dedupeKey: "",
  };
}

export function draftOf(trigger: Trigger): Draft {
  return {
    type: trigger.type,
    label: trigger.label,
    definition: trigger.definition,
    queue: trigger.queue ?? "",
    priority: String(trigger.priority),
    payload: print(trigger.payload),
    cron: trigger.cron ?? "",
    timezone: trigger.timezone,
    catchUp: trigger.catch_up,
    catchUpLimit: String(trigger.catch_up_limit),
    overlap: trigger.overlap,
    jitter: String(trigger.jitter_s),
    event: trigger.event ?? "",
    conditions: (trigger.filter as { path: string; op: string; value?: unknown }[]).map((each) => ({
      path: each.path,
      op: each.op,
      value: valueText(each.value ?? true),
    })),
    dedupeWindow: String(trigger.dedupe_window_s),
    dedupeKey: trigger.dedupe_key ?? "",
  };
}

/** Quote text that would otherwise be read as JSON. */
function valueText(value: unknown): string {
  return typeof value === "string" && !isJson(value) ? value : printShort(value);
}

/**
 * Return the request body as JSON text, so that long numbers are sent as typed. An unchanged
 * payload is omitted, because its secrets are masked.
 */
export function bodyOf(draft: Draft, before: Draft | null): string {
  const text = (value: string) => JSON.stringify(value);
  const members: [string, string][] = [
    ["label", text(draft.label.trim())],
    ["definition", text(draft.definition)],
    ["queue", draft.queue ? text(draft.queue) : "null"],
    ["priority", String(Number(draft.priority) || 0)],
  ];
  if (before === null) members.push(["type", text(draft.type)]);
  if (draft.payload !== null && draft.payload !== before?.payload)
    members.push(["payload", draft.payload]);
  if (draft.type === "schedule") {
    members.push(
      ["cron", text(draft.cron.trim())],
      ["timezone", text(draft.timezone.trim())],
      ["catch_up", text(draft.catchUp)],
      ["overlap", text(draft.overlap)],
      ["jitter_s", String(Number(draft.jitter) || 0)],
    );
    if (draft.catchUp === "all")
      members.push(["catch_up_limit", String(Number(draft.catchUpLimit) || 1)]);
  } else {
    members.push(
      ["event", text(draft.event.trim())],
      ["filter", `[${draft.conditions.map(conditionText).join(", ")}]`],
      ["dedupe_window_s", String(Number(draft.dedupeWindow) || 0)],
    );
    if (draft.dedupeKey || before?.dedupeKey)
      members.push(["dedupe_key", draft.dedupeKey ? text(draft.dedupeKey) : "null"]);
  }
  return `{${members.map(([name, value]) => `"${name}": ${value}`).join(", ")}}`;
}

function conditionText({ path, op, value }: Condition): string {
  const json = isJson(value) ? value : JSON.stringify(value);
  return `{"path": ${JSON.stringify(path.trim())}, "op": "${op}", "value": ${json}}`;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
