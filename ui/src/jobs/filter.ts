/** The job filter, and its conversion between the URL, the input, and the API. */

import { STATES } from "@/jobs/states";

export interface JobFilter {
  state?: string; // several states, separated by commas
  definition?: string;
  queue?: string;
  tag?: string;
  source?: string;
  key?: string;
  correlation_id?: string;
  fingerprint?: string;
  after?: string; // a time, or an age such as 1h
  before?: string;
}

type Name = keyof JobFilter;

/** The names of filters in the input. Input is written with the first one; all are accepted. */
const WORDS: Record<Name, string[]> = {
  state: ["state", "is"],
  definition: ["def", "definition"],
  queue: ["queue"],
  tag: ["tag"],
  source: ["source"],
  key: ["key"],
  correlation_id: ["corr", "correlation_id"],
  fingerprint: ["fp", "fingerprint"],
  after: ["after", "since"],
  before: ["before"],
};
export const NAMES = Object.keys(WORDS) as Name[];

const SOURCES = ["manual", "event", "schedule", "system", "workflow"];
const AGES = ["5m", "1h", "24h", "7d"];

export function readFilter(search: Record<string, unknown>): JobFilter {
  const found: JobFilter = {};
  for (const name of NAMES) {
    const value = search[name];
    if (typeof value === "string" && value !== "") found[name] = value;
  }
  return found;
}

export function formatFilter(filter: JobFilter): string {
  return NAMES.filter((name) => filter[name])
    .map((name) => `${WORDS[name][0]}:${quote(filter[name] ?? "")}`)
    .join(" ");
}

/** Return the filter that the text describes, and the words that are not recognized. */
export function parseFilter(text: string): { filter: JobFilter; unknown: string[] } {
  const filter: JobFilter = {};
  const unknown: string[] = [];
  for (const word of splitWords(text)) {
    const [label, ...rest] = word.split(":");
    const name = NAMES.find((each) => WORDS[each].includes((label ?? "").toLowerCase()));
    const value = rest.join(":").replaceAll('"', "");
    if (rest.length === 0) {
      if (filter.definition) unknown.push(word);
      else filter.definition = word.replaceAll('"', "");
    } else if (name === undefined || value === "") unknown.push(word);
    else if (name === "state" && value.split(",").some((each) => !isState(each)))
      unknown.push(word);
    else filter[name] = value;
  }
  return { filter, unknown };
}

/** Return the completions of the last word in the input. */
export function completions(
  text: string,
  known: { definitions: string[]; queues: string[] },
): string[] {
  const word = /\s$/.test(text) || text === "" ? "" : (splitWords(text).at(-1) ?? "");
  const head = text.slice(0, text.length - word.length);
  const [label, value] = word.split(":");
  const options =
    value === undefined
      ? [
          ...NAMES.map((name) => `${WORDS[name][0]}:`),
          ...known.definitions.map((each) => `def:${each}`),
        ]
      : valuesOf(label ?? "", known).map((each) => `${label}:${each}`);
  const wanted = word.toLowerCase();
  return options
    .filter(
      (each) =>
        each !== word &&
        (each.startsWith(wanted) ||
          (value === undefined && wanted !== "" && each.includes(wanted))),
    )
    .slice(0, 8)
    .map((each) => head + each);
}

function valuesOf(label: string, known: { definitions: string[]; queues: string[] }): string[] {
  const name = NAMES.find((each) => WORDS[each].includes(label));
  if (name === "state") return STATES;
  if (name === "definition") return known.definitions;
  if (name === "queue") return known.queues;
  if (name === "source") return SOURCES;
  if (name === "after" || name === "before") return AGES;
  return [];
}

export function toQuery(filter: JobFilter) {
  return {
    ...toOperationFilter(filter),
    state: filter.state?.split(",").filter(isState),
  };
}

/** Return the filter in the format of bulk operations. */
export function toOperationFilter(filter: JobFilter) {
  return {
    state: filter.state?.split(","),
    definition: filter.definition,
    queue: filter.queue,
    tag: filter.tag,
    source: filter.source,
    key: filter.key,
    correlation_id: filter.correlation_id,
    fingerprint: filter.fingerprint,
    created_after: momentOf(filter.after),
    created_before: momentOf(filter.before),
  };
}

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400 };

export function momentOf(text: string | undefined): string | undefined {
  if (!text) return undefined;
  const ago = /^(\d+)([smhd])$/.exec(text);
  // Rounded to the minute, so that the query key stays the same for a minute.
  if (ago) {
    const at = Date.now() - Number(ago[1]) * (UNITS[ago[2] ?? "s"] ?? 1) * 1000;
    return new Date(Math.floor(at / 60_000) * 60_000).toISOString();
  }
  const moment = new Date(text);
  return Number.isNaN(moment.getTime()) ? undefined : moment.toISOString();
}

export function isState(text: string): text is (typeof STATES)[number] {
  return (STATES as string[]).includes(text);
}

function splitWords(text: string): string[] {
  return text.match(/(?:[^\s"]+|"[^"]*")+/g) ?? [];
}

function quote(value: string): string {
  return /\s/.test(value) ? `"${value}"` : value;
}
