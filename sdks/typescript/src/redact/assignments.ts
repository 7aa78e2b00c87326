/**
 * Hides secrets that a text assigns to their name: `password=…`, `"api_key": "…"`, `Cookie: …`.
 *
 * The text is read once. After each name that isSecretName recognizes, the first character of the
 * value (a quote, a bracket, or a plain word) determines how the value is matched to its end; the
 * search continues there. In doubtful cases, more text is hidden rather than less.
 */

import { isHeaderName, isSecretName } from "./names.ts";

// Substrings of secret names, for a fast search; isSecretName decides on the whole name.
const NAME_HINTS = [
  "pass(?:word|wd|phrase|code)|pwd|secret|token|credential|creds|cookie",
  "auth(?:orization)?|bearer|jwt|t?otp|cv[vc]|dsn",
  "(?:api|private|access|account|auth|encryption|master|service|session|shared|signing|ssh|storage)" +
    "[_-]?(?:key|id)|connection[_-]?string",
].join("|");
// The value of a pair, `["Cookie", "…"]`, or of `{"name": "Cookie", "value": "…"}`.
const BESIDE = String.raw`[ \t]{0,8},\s{0,8}(?:\\{0,8}["']value\\{0,8}["'][ \t]{0,8}:[ \t]{0,8})?`;
const NAME = new RegExp(
  `(?:${NAME_HINTS})(?=([\\w-]{0,40}))\\1` +
    String.raw`(?<quote>\\{0,8}["'])?\]?` +
    String.raw`(?<sign>[ \t]{0,8}(?:=>|:=|==?|:|>)[ \t]{0,8}|${BESIDE}|[ \t]{1,8})`,
  "gid",
);
// A text without any of these substrings contains no secret name. This check is much faster than
// NAME.
const HINT = /pass|pwd|secret|token|cred|cookie|auth|bearer|jwt|otp|cv|dsn|key|session|connection/i;
const LETTER = /[A-Za-z0-9_.-]/;
const MAX_PREFIX_LENGTH = 40;

const OPENING = /[bBrRuUfF]{0,2}(\\*)(["'])/y;
// Matches only at the first backslash of a run: matching at each of them would take quadratic time.
const CLOSING = /(?<!\\)(\\*)(["'])|\n/g;
const BRACKETS = /[\][(){}\n]/g;
const OPEN = "[({";
const MAX_BRACKET_LENGTH = 8192;

// A quote inside a value belongs to the value unless the following characters end a string.
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

interface NameMatch {
  readonly start: number;
  readonly end: number;
  readonly quote: string | undefined;
  readonly sign: string;
  readonly nameEnd: number;
}

/** Replace the values of secret names by the marker. */
export function hideAssignments(text: string, marker: string): string {
  if (!HINT.test(text)) return text;
  const parts: string[] = [];
  let done = 0;
  let position = 0;
  for (let found = nextName(text, position); found; found = nextName(text, position)) {
    position = found.end;
    const span = findValue(text, found);
    if (span === null) continue;
    const [start, end] = span;
    if (HARMLESS.has(stripPunctuation(text.slice(start, end)).toLowerCase())) continue;
    parts.push(text.slice(done, start), marker);
    done = position = end;
  }
  return parts.length > 0 ? parts.join("") + text.slice(done) : text;
}

function nextName(text: string, position: number): NameMatch | null {
  NAME.lastIndex = position;
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

/** Return the start and end of the name's value, or null if it is not a secret. */
function findValue(text: string, found: NameMatch): Span | null {
  const [name, nameStart] = readName(text, found);
  if (!isSecretName(name)) return null;
  const start = found.end;
  const sign = found.sign.trim();
  if (sign === ">") return text[nameStart - 1] === "<" ? matchSpan(ELEMENT, text, start) : null;
  if (sign === "" && !standsForAssignment(name, text[start] ?? "")) return null;
  if (sign.startsWith(",")) return matchPair(text, found, nameStart);
  const span = matchEnclosed(text, start, found.quote !== undefined);
  if (span !== null || found.quote === undefined) {
    return span ?? matchBare(text, start, name, nameStart, sign);
  }
  return matchSpan(SCALAR, text, start);
}

/** Match a value that follows its name as the next element. */
function matchPair(text: string, found: NameMatch, nameStart: number): Span | null {
  if (found.quote === undefined) return null;
  if (found.sign.trimEnd().endsWith(":")) return matchEnclosed(text, found.end, true);
  const before = text
    .slice(Math.max(0, nameStart - MAX_PREFIX_LENGTH), nameStart)
    .replace(/[\\"'b]+$/, "");
  if (!before.endsWith("[") && !before.endsWith("(")) return null;
  const opening = matchAt(OPENING, text, found.end);
  if (opening === null) return null;
  const end = findClosing(text, opening);
  // In a list of three or more elements, no element is the name of the next one.
  const after = text.slice(end, end + MAX_PREFIX_LENGTH).replace(/^[\\"' \t\n]+/, "");
  if (!after.startsWith("]") && !after.startsWith(")")) return null;
  return [opening.index + opening[0].length, end];
}

/** Match a value in quotes or brackets. */
function matchEnclosed(text: string, start: number, isJson: boolean): Span | null {
  const opening = matchAt(OPENING, text, start);
  if (opening !== null) return [start + opening[0].length, findClosing(text, opening)];
  const first = text[start];
  if (first !== undefined && OPEN.includes(first))
    return [start, findBracketEnd(text, start, isJson)];
  return null;
}

function matchBare(
  text: string,
  start: number,
  name: string,
  nameStart: number,
  sign: string,
): Span | null {
  if (isHeaderName(name) || (sign === ":" && startsLine(text, nameStart))) {
    return matchSpan(LINE, text, start);
  }
  const span = matchSpan(WORD, text, start);
  return sign === ":" && isProse(name, text.slice(...span)) ? null : span;
}

function readName(text: string, found: NameMatch): readonly [string, number] {
  const lowest = Math.max(0, found.start - MAX_PREFIX_LENGTH);
  let start = found.start;
  while (start > lowest && LETTER.test(text[start - 1] ?? "")) start -= 1;
  return [text.slice(start, found.nameEnd).replace(/\]+$/, ""), start];
}

/** `--password x` on a command line, `password 'x'` in SQL. */
function standsForAssignment(name: string, first: string): boolean {
  if (name.startsWith("--")) return first !== "-" && first !== "";
  return first === "'" && name.toLowerCase().endsWith("password");
}

/**
 * Return the end of the quoted value: its closing quote, or the end of the line if the quote is not
 * closed.
 */
function findClosing(text: string, opening: RegExpExecArray): number {
  const depth = opening[1]?.length ?? 0;
  const quote = opening[2];
  let position = opening.index + opening[0].length;
  for (
    let closing = matchAt(CLOSING, text, position);
    closing;
    closing = matchAt(CLOSING, text, position)
  ) {
    position = closing.index + closing[0].length;
    if (closing[2] === undefined) return closing.index;
    // Nested JSON: if n backslashes precede the opening quote, 2n + 1 precede a quote inside the
    // value.
    const count = closing[1]?.length ?? 0;
    if (closing[2] === quote && count % (2 * depth + 2) === depth) return position - 1 - depth;
  }
  return text.length;
}

/**
 * Return the end of the bracketed value. In JSON it may span lines; elsewhere it ends with the line
 * at the latest.
 */
function findBracketEnd(text: string, start: number, isJson: boolean): number {
  const limit = Math.min(text.length, start + MAX_BRACKET_LENGTH);
  let depth = 0;
  let position = start;
  for (
    let found = matchAt(BRACKETS, text, position);
    found;
    found = matchAt(BRACKETS, text, position)
  ) {
    if (found.index >= limit) break;
    position = found.index + 1;
    if (found[0] === "\n") {
      if (isJson) continue;
      return found.index;
    }
    depth += OPEN.includes(found[0]) ? 1 : -1;
    if (depth === 0) return findJoinedEnd(text, position);
  }
  return limit;
}

/** Text directly after a closing bracket, as in `[redacted]rest`, belongs to the value. */
function findJoinedEnd(text: string, end: number): number {
  return /[\p{L}\p{N}]/u.test(text[end] ?? "") ? matchSpan(WORD, text, end)[1] : end;
}

function startsLine(text: string, start: number): boolean {
  const lowest = Math.max(0, start - MAX_PREFIX_LENGTH);
  const before = text.slice(lowest, start);
  const line = before.lastIndexOf("\n");
  if (line < 0 && lowest > 0) return false;
  return LIST_MARK.test(before.slice(line + 1));
}

/** Whether the text is prose, such as "unexpected token: expected a comma". */
function isProse(name: string, value: string): boolean {
  return (
    name.toLowerCase().endsWith("token") &&
    /^\p{L}+$/u.test(value.slice(0, trimmedLength(value, ".,;")))
  );
}

function stripPunctuation(value: string): string {
  const end = trimmedLength(value, AROUND);
  let start = 0;
  while (start < end && AROUND.includes(value[start] ?? "")) start += 1;
  return value.slice(start, end);
}

/**
 * Return the length of the value without trailing `letters`. A regular expression would take
 * quadratic time.
 */
function trimmedLength(value: string, letters: string): number {
  let end = value.length;
  while (end > 0 && letters.includes(value[end - 1] ?? "")) end -= 1;
  return end;
}

function matchSpan(pattern: RegExp, text: string, start: number): Span {
  const match = matchAt(pattern, text, start);
  return [start, match ? start + match[0].length : start];
}

function matchAt(pattern: RegExp, text: string, position: number): RegExpExecArray | null {
  pattern.lastIndex = position;
  return pattern.exec(text);
}
