/**
 * Finds registered secret values in a text in all their encodings: plain, JSON-escaped,
 * HTML-escaped, percent-encoded, hexadecimal, and inside base64, also across a line break. The time
 * is proportional to the length of the text and to the number of encoded forms.
 */

const MIN_LENGTH = 8;
// A shorter single word of letters is likely to be an ordinary word.
const MIN_WORD_LENGTH = 12;
const WORD = /^[A-Z]?(?:[a-z]+|[A-Z]+)$/;
// The minimum length of a value's remainder that is recognized at a cut.
const MIN_CUT_LENGTH = 4;
// Up to this number of forms, each form is searched separately.
const MAX_LINEAR_FORMS = 256;
// V8's search (Boyer-Moore) builds its tables for this number of characters. For a longer form, an
// adversarial text could take time proportional to the product of both lengths.
const MAX_V8_SEARCH_LENGTH = 250;
// Line breaks in plain and in escaped text. LINE_END matches single ones: an empty line separates
// values.
const LINE_ENDS = /(?:\r?\n[ \t]*|(?:\\r)?\\n)+/g;
const LINE_END = /^(?:\r?\n[ \t]*|(?:\\r)?\\n)$/;

/** One encoding of a secret value. */
interface SecretForm {
  readonly text: string;
  readonly value: string;
}

/** All forms, and the forms by their first characters. */
interface Index {
  readonly forms: readonly SecretForm[];
  readonly byStart: ReadonlyMap<string, readonly SecretForm[]>;
}

/**
 * Whether a value is unlikely to occur in ordinary text: it has at least 8 characters, or 12 for a
 * single word of letters such as a table name.
 */
export function canBeHidden(value: string): boolean {
  return value.length >= MIN_LENGTH && (value.length >= MIN_WORD_LENGTH || !WORD.test(value));
}

/** A set of secret values. With `most`, the value that was registered least recently is evicted. */
export class Registry {
  readonly #most: number;
  readonly #values = new Set<string>();
  #index: Index | null = null;

  constructor(most = Number.POSITIVE_INFINITY) {
    this.#most = most;
  }

  get size(): number {
    return this.#values.size;
  }

  get values(): Iterable<string> {
    return this.#values;
  }

  /** Register a value. Returns false for a value that `canBeHidden` rejects. */
  add(value: string): boolean {
    if (!canBeHidden(value)) return false;
    if (this.#values.delete(value)) {
      this.#values.add(value);
      return true;
    }
    this.#values.add(value);
    if (this.#values.size > this.#most) {
      const [oldest] = this.#values;
      if (oldest !== undefined) this.#values.delete(oldest);
    }
    this.#index = null;
    return true;
  }

  has(value: string): boolean {
    return this.#values.has(value);
  }

  /**
   * Return the forms to search for. If there are many, only those whose first characters occur in
   * the text.
   */
  candidates(text: string): readonly SecretForm[] {
    this.#index ??= buildIndex(this.#values);
    const { forms, byStart } = this.#index;
    if (forms.length <= Math.min(text.length, MAX_LINEAR_FORMS)) return forms;
    const starts = new Set<string>();
    for (let position = 0; position <= text.length - MIN_LENGTH; position += 1) {
      const start = text.slice(position, position + MIN_LENGTH);
      if (byStart.has(start)) starts.add(start);
    }
    return [...starts].flatMap((start) => byStart.get(start) ?? []);
  }

  /**
   * Return the number of characters at the start of the text that are the remainder of a truncated
   * value.
   */
  cutValueLength(text: string): number {
    const start = text.slice(0, MIN_CUT_LENGTH);
    if (start.trim() === "") return 0;
    this.#index ??= buildIndex(this.#values);
    const forms = this.#index.forms.filter((form) => form.text.includes(start));
    if (forms.length === 0) return 0;
    const longest = forms.reduce((most, form) => Math.max(most, form.text.length), 0);
    const head = text.slice(0, longest);
    const table = prefixTable(head);
    return forms.reduce((most, form) => Math.max(most, overlap(form.text, head, table)), 0);
  }
}

/**
 * Replace all occurrences of the values, except of values for which `isShown` is true. Occurrences
 * that overlap or touch become one marker.
 */
export function hideForms(
  text: string,
  registries: readonly Registry[],
  marker: string,
  isShown: (value: string) => boolean,
): string {
  const covered = new CoveredText(text);
  for (const [start, end] of findSpans(text, registries, isShown)) covered.add(start, end);
  const joined = joinLines(text);
  if (joined !== null) {
    for (const [start, end] of findSpans(joined.text, registries, isShown)) {
      covered.add(joined.original(start), joined.original(end - 1) + 1);
    }
  }
  return covered.replaceCovered(marker);
}

/** Whether the text contains the value in any encoding. */
export function occursIn(value: string, text: string): boolean {
  return listForms(value).some((form) => findPositions(form, text).next().done === false);
}

function* findSpans(
  text: string,
  registries: readonly Registry[],
  isShown: (value: string) => boolean,
): Generator<readonly [number, number]> {
  for (const registry of registries) {
    for (const form of registry.candidates(text)) {
      for (const position of findPositions(form.text, text)) {
        if (isShown(form.value)) break;
        yield [position, position + form.text.length];
      }
    }
  }
}

/** Yield the positions of non-overlapping occurrences of the form. */
function* findPositions(form: string, text: string): Generator<number> {
  const start = form.slice(0, MAX_V8_SEARCH_LENGTH);
  let position = text.indexOf(start);
  if (position < 0) return;
  if (form.length > MAX_V8_SEARCH_LENGTH) {
    yield* findLongFormPositions(form, text, position);
    return;
  }
  for (; position >= 0; position = text.indexOf(form, position + form.length)) yield position;
}

/**
 * Search with the Knuth-Morris-Pratt algorithm: slower than V8's search for most texts, but always
 * linear.
 */
function* findLongFormPositions(form: string, text: string, from: number): Generator<number> {
  const table = prefixTable(form);
  let length = 0;
  for (let position = from; position < text.length; position += 1) {
    const letter = text.charCodeAt(position);
    while (length > 0 && letter !== form.charCodeAt(length)) length = table[length - 1] ?? 0;
    if (letter === form.charCodeAt(length)) length += 1;
    if (length === form.length) {
      yield position + 1 - length;
      length = 0;
    }
  }
}

/** The prefix function of Knuth, Morris and Pratt. */
function prefixTable(text: string): Uint32Array {
  const table = new Uint32Array(text.length);
  let length = 0;
  for (let position = 1; position < text.length; position += 1) {
    const letter = text.charCodeAt(position);
    while (length > 0 && letter !== text.charCodeAt(length)) length = table[length - 1] ?? 0;
    if (letter === text.charCodeAt(length)) length += 1;
    table[position] = length;
  }
  return table;
}

/** Return the length of the longest proper suffix of the form that is a prefix of the text. */
function overlap(form: string, head: string, table: Uint32Array): number {
  let length = 0;
  for (let position = 1; position < form.length; position += 1) {
    const letter = form.charCodeAt(position);
    if (length === head.length) length = table[length - 1] ?? 0;
    while (length > 0 && letter !== head.charCodeAt(length)) length = table[length - 1] ?? 0;
    if (letter === head.charCodeAt(length)) length += 1;
  }
  return length >= MIN_CUT_LENGTH ? length : 0;
}

/** A text and the parts of it that are to be replaced. */
class CoveredText {
  readonly #text: string;
  #marks: Uint8Array | null = null;

  constructor(text: string) {
    this.#text = text;
  }

  add(start: number, end: number): void {
    this.#marks ??= new Uint8Array(this.#text.length);
    this.#marks.fill(1, start, end);
  }

  /** Return the text with one marker for each covered run. */
  replaceCovered(marker: string): string {
    const [text, marks] = [this.#text, this.#marks];
    if (marks === null) return text;
    const parts: string[] = [];
    let done = 0;
    for (let start = marks.indexOf(1); start >= 0; start = marks.indexOf(1, done)) {
      parts.push(text.slice(done, start), marker);
      const end = marks.indexOf(0, start);
      done = end < 0 ? text.length : end;
    }
    return parts.join("") + text.slice(done);
  }
}

function buildIndex(values: Iterable<string>): Index {
  const forms = [...values].flatMap((value) => listForms(value).map((text) => ({ text, value })));
  const byStart = new Map<string, SecretForm[]>();
  for (const form of forms) {
    const start = form.text.slice(0, MIN_LENGTH);
    const others = byStart.get(start);
    if (others === undefined) byStart.set(start, [form]);
    else others.push(form);
  }
  return { forms, byStart };
}

interface JoinedText {
  readonly text: string;
  original(position: number): number;
}

/**
 * Return the text without its single line breaks, with a mapping to original positions; null
 * without line breaks.
 */
function joinLines(text: string): JoinedText | null {
  const pieces: string[] = [];
  const starts = [0];
  const shifts = [0];
  let done = 0;
  let length = 0;
  for (const found of text.matchAll(LINE_ENDS)) {
    if (!LINE_END.test(found[0])) continue;
    pieces.push(text.slice(done, found.index));
    length += found.index - done;
    done = found.index + found[0].length;
    starts.push(length);
    shifts.push(done - length);
  }
  if (pieces.length === 0) return null;
  return {
    text: pieces.join("") + text.slice(done),
    original: (position) => position + (shifts[lastUpTo(starts, position)] ?? 0),
  };
}

/** Return the index of the last of the ascending numbers that is not above the limit. */
function lastUpTo(numbers: readonly number[], limit: number): number {
  let low = 0;
  let high = numbers.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((numbers[middle] ?? 0) <= limit) low = middle;
    else high = middle - 1;
  }
  return low;
}

function listForms(value: string): readonly string[] {
  const written = [...escapedForms(value), ...htmlForms(value), ...percentEncodedForms(value)];
  const forms = [value, ...written, ...base64AndHexForms(Buffer.from(value))];
  return [...new Set(forms.filter((form) => form.length >= MIN_LENGTH))];
}

function escapedForms(value: string): string[] {
  const once = JSON.stringify(value).slice(1, -1);
  const ascii = withCodes(once, /[\u0080-\uffff]/g);
  const twice = JSON.stringify(once).slice(1, -1);
  const ofPhp = [once, ascii].map((form) => form.replaceAll("/", "\\/"));
  const ofGo = withCodes(once, /[&<>\u2028\u2029]/g);
  return [once, ascii, twice, ...ofPhp, ofGo, value.replaceAll("\n", "\r\n")];
}

function withCodes(text: string, letters: RegExp): string {
  return text.replace(
    letters,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

function htmlForms(value: string): string[] {
  const plain = value.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  // HTML has several escapes for quotes.
  const named = ["&#x27;", "&#39;", "&#039;", "&apos;"].flatMap((apostrophe) =>
    ["&quot;", "&#34;"].map((quote) => plain.replaceAll("'", apostrophe).replaceAll('"', quote)),
  );
  return [plain, ...named];
}

function percentEncodedForms(value: string): string[] {
  const whole = encodeURIComponent(value.toWellFormed()).replace(
    /[!'()*]/g,
    (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  const forms = [whole, whole.replaceAll("%2F", "/"), whole.replaceAll("%20", "+")];
  return [
    ...forms,
    ...forms.map((form) => form.replace(/%[0-9A-F]{2}/g, (sign) => sign.toLowerCase())),
  ];
}

function base64AndHexForms(raw: Buffer): string[] {
  const forms = [raw.toString("base64"), raw.toString("hex"), raw.toString("hex").toUpperCase()];
  for (const before of [0, 1, 2] as const) forms.push(...withinBase64(raw, before));
  return forms.filter((form) => form.length >= MIN_LENGTH);
}

/**
 * Return the part of the base64 encoding that depends only on the value, with this number of
 * preceding bytes (modulo 3).
 */
function withinBase64(raw: Buffer, before: 0 | 1 | 2): string[] {
  const text = Buffer.concat([Buffer.alloc(before), raw]).toString("base64");
  // The characters at both ends also contain bits of adjacent bytes.
  const own = text.slice([0, 2, 3][before], Math.floor(((before + raw.length) * 8) / 6));
  return [own, own.replaceAll("+", "-").replaceAll("/", "_")];
}
