/**
 * Secrets that a text gives under their name: `password=…`, `"api_key": "…"`, `Cookie: …`.
 *
 * The text is read once. At each name that isSecretName knows, the value after it is found by how
 * it begins (a quote, a bracket, a plain word) and eaten to its end, and the reading goes on there.
 * When in doubt more is hidden rather than less.
 */

import { isHeaderName, isSecretName } from "./names.ts";

// The part of a name by which it is noticed; isSecretName decides with the whole of it.
const NOTICED = [
  "pass(?:word|wd|phrase|code)|pwd|secret|token|credential|creds|cookie",
  "auth(?:orization)?|bearer|jwt|t?otp|cv[vc]|dsn",
  "(?:api|private|access|account|auth|encryption|master|service|session|shared|signing|ssh|storage)" +
    "[_-]?(?:key|id)|connection[_-]?string",
].join("|");
// The value of a pair, `["Cookie", "…"]`, or of `{"name": "Cookie", "value": "…"}`.
const BESIDE = String.raw`[ \t]{0,8},\s{0,8}(?:\\{0,8}["']value\\{0,8}["'][ \t]{0,8}:[ \t]{0,8})?`;
const NAME = new RegExp(
  `(?:${NOTICED})(?=([\\w-]{0,40}))\\1` +
    String.raw`(?<quote>\\{0,8}["'])?\]?` +
    String.raw`(?<sign>[ \t]{0,8}(?:=>|:=|==?|:|>)[ \t]{0,8}|${BESIDE}|[ \t]{1,8})`,
  "gid",
);
// Without one of these no name can be there: looking for them is much faster.
const HINT = /pass|pwd|secret|token|cred|cookie|auth|bearer|jwt|otp|cv|dsn|key|session|connection/i;
const LETTER = /[A-Za-z0-9_.-]/;
const LONGEST_BEFORE = 40;

const OPENING = /[bBrRuUfF]{0,2}(\\*)(["'])/y;
// Begins at the first of a row of backslashes only, or a long row would be counted from each.
const CLOSING = /(?<!\\)(\\*)(["'])|\n/g;
const BRACKETS = /[\][(){}\n]/g;
const OPEN = "[({";
const LONGEST_BRACKET = 8192;

// A quote inside a value belongs to it, unless what follows shows that a text ends there.
const INNER_QUOTE = String.raw`["'](?![\s,;:)}\]\\]|$)`;
const WORD = new RegExp(`(?:[^\\s&"'<>]|${INNER_QUOTE})*`, "y");
const LINE = new RegExp(`(?:[^\\r\\n"'<>]|${INNER_QUOTE})*`, "y");
const SCALAR = /[^\s,}\]]*/y;
const ELEMENT = /[^<]*/y;

const LIST_MARK = /^[ \t]*(?:[-*+>#][ \t]+)?["']?$/;
const HARMLESS = new Set([
  "",
  "none",
  "null",
  "true",
  "false",
  "str",
  "int",
  "bytes",
  "optional",
  "required",
  "missing",
]);

const AROUND = " \t,;)}]";

type Span = readonly [start: number, end: number];

interface Found {
  readonly start: number;
  readonly end: number;
  readonly quote: string | undefined;
  readonly sign: string;
  readonly nameEnd: number;
}

/** The text without the values of secret names. */
export function hideAssigned(text: string, marker: string): string {
  if (!HINT.test(text)) return text;
  const parts: string[] = [];
  let done = 0;
  let place = 0;
  for (let found = nextName(text, place); found; found = nextName(text, place)) {
    place = found.end;
    const span = valueAfter(text, found);
    if (span === null) continue;
    const [start, end] = span;
    if (HARMLESS.has(stripped(text.slice(start, end)).toLowerCase())) continue;
    parts.push(text.slice(done, start), marker);
    done = place = end;
  }
  return parts.length > 0 ? parts.join("") + text.slice(done) : text;
}

function nextName(text: string, place: number): Found | null {
  NAME.lastIndex = place;
  const match = NAME.exec(text);
  if (match === null) return null;
  const quoteAt = match.indices?.groups?.quote;
  const signAt = match.indices?.groups?.sign;
  return {
    start: match.index,
    end: match.index + match[0].length,
    quote: match.groups?.quote,
    sign: match.groups?.sign ?? "",
    nameEnd: quoteAt?.[0] ?? signAt?.[0] ?? match.index,
  };
}

/** Where the value of this name begins and ends; null when it is no secret. */
function valueAfter(text: string, found: Found): Span | null {
  const [name, nameStart] = nameOf(text, found);
  if (!isSecretName(name)) return null;
  const start = found.end;
  const sign = found.sign.trim();
  if (sign === ">") return text[nameStart - 1] === "<" ? matched(ELEMENT, text, start) : null;
  if (sign === "" && !standsForAssignment(name, text[start] ?? "")) return null;
  if (sign.startsWith(",")) return beside(text, found, nameStart);
  const span = enclosed(text, start, found.quote !== undefined);
  if (span !== null || found.quote === undefined) {
    return span ?? bare(text, start, name, nameStart, sign);
  }
  return matched(SCALAR, text, start);
}

/** A value that follows its name as the next element. */
function beside(text: string, found: Found, nameStart: number): Span | null {
  if (found.quote === undefined) return null;
  if (found.sign.trimEnd().endsWith(":")) return enclosed(text, found.end, true);
  const before = text
    .slice(Math.max(0, nameStart - LONGEST_BEFORE), nameStart)
    .replace(/[\\"'b]+$/, "");
  if (!before.endsWith("[") && !before.endsWith("(")) return null;
  const opening = at(OPENING, text, found.end);
  if (opening === null) return null;
  const end = closingOf(text, opening);
  // Of three elements or more none is a name.
  const after = text.slice(end, end + LONGEST_BEFORE).replace(/^[\\"' \t\n]+/, "");
  if (!after.startsWith("]") && !after.startsWith(")")) return null;
  return [opening.index + opening[0].length, end];
}

/** A value in quotes or brackets. */
function enclosed(text: string, start: number, isJson: boolean): Span | null {
  const opening = at(OPENING, text, start);
  if (opening !== null) return [start + opening[0].length, closingOf(text, opening)];
  const first = text[start];
  if (first !== undefined && OPEN.includes(first))
    return [start, endOfBrackets(text, start, isJson)];
  return null;
}

function bare(
  text: string,
  start: number,
  name: string,
  nameStart: number,
  sign: string,
): Span | null {
  if (isHeaderName(name) || (sign === ":" && beginsALine(text, nameStart))) {
    return matched(LINE, text, start);
  }
  const span = matched(WORD, text, start);
  return sign === ":" && isProse(name, text.slice(...span)) ? null : span;
}

function nameOf(text: string, found: Found): readonly [string, number] {
  const lowest = Math.max(0, found.start - LONGEST_BEFORE);
  let start = found.start;
  while (start > lowest && LETTER.test(text[start - 1] ?? "")) start -= 1;
  return [text.slice(start, found.nameEnd).replace(/\]+$/, ""), start];
}

/** `--password x` on a command line, `password 'x'` in SQL. */
function standsForAssignment(name: string, first: string): boolean {
  if (name.startsWith("--")) return first !== "-" && first !== "";
  return first === "'" && name.toLowerCase().endsWith("password");
}

/** Where the quoted value ends: at its closing quote, or with the line when there is none. */
function closingOf(text: string, opening: RegExpExecArray): number {
  const depth = opening[1]?.length ?? 0;
  const quote = opening[2];
  let place = opening.index + opening[0].length;
  for (let closing = at(CLOSING, text, place); closing; closing = at(CLOSING, text, place)) {
    place = closing.index + closing[0].length;
    if (closing[2] === undefined) return closing.index;
    // JSON within JSON: n backslashes opened it; a quote inside has 2n + 1 of them.
    const count = closing[1]?.length ?? 0;
    if (closing[2] === quote && count % (2 * depth + 2) === depth) return place - 1 - depth;
  }
  return text.length;
}

/** In JSON a value may take many lines; elsewhere it ends with the line at the latest. */
function endOfBrackets(text: string, start: number, isJson: boolean): number {
  const limit = Math.min(text.length, start + LONGEST_BRACKET);
  let depth = 0;
  let place = start;
  for (let found = at(BRACKETS, text, place); found; found = at(BRACKETS, text, place)) {
    if (found.index >= limit) break;
    place = found.index + 1;
    if (found[0] === "\n") {
      if (isJson) continue;
      return found.index;
    }
    depth += OPEN.includes(found[0]) ? 1 : -1;
    if (depth === 0) return endOfJoined(text, place);
  }
  return limit;
}

/** What is written against a closing bracket, as in `[redacted]rest`, belongs to the value. */
function endOfJoined(text: string, end: number): number {
  return /[\p{L}\p{N}]/u.test(text[end] ?? "") ? matched(WORD, text, end)[1] : end;
}

function beginsALine(text: string, start: number): boolean {
  const lowest = Math.max(0, start - LONGEST_BEFORE);
  const before = text.slice(lowest, start);
  const line = before.lastIndexOf("\n");
  if (line < 0 && lowest > 0) return false;
  return LIST_MARK.test(before.slice(line + 1));
}

/** "unexpected token: expected a comma" tells no token. */
function isProse(name: string, value: string): boolean {
  return (
    name.toLowerCase().endsWith("token") && /^\p{L}+$/u.test(value.slice(0, endOf(value, ".,;")))
  );
}

function stripped(value: string): string {
  const end = endOf(value, AROUND);
  let start = 0;
  while (start < end && AROUND.includes(value[start] ?? "")) start += 1;
  return value.slice(start, end);
}

/** Where the value ends without these letters. A pattern would try from each of them to the last. */
function endOf(value: string, letters: string): number {
  let end = value.length;
  while (end > 0 && letters.includes(value[end - 1] ?? "")) end -= 1;
  return end;
}

function matched(pattern: RegExp, text: string, start: number): Span {
  const match = at(pattern, text, start);
  return [start, match ? start + match[0].length : start];
}

function at(pattern: RegExp, text: string, place: number): RegExpExecArray | null {
  pattern.lastIndex = place;
  return pattern.exec(text);
}
