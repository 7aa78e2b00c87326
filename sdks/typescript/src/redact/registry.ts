/**
 * Values that are known to be secret, found in a text in whatever form they were written: as it is,
 * JSON-escaped, in HTML, percent-encoded, in hexadecimal, and inside base64, also where a line ends
 * in the middle of it.
 */

const SHORTEST = 8;
// A single word of letters shorter than this is likely to be an ordinary word.
const SHORTEST_WORD = 12;
const WORD = /^[A-Z]?(?:[a-z]+|[A-Z]+)$/;
// The part of a form that is recognized at a cut must have this length.
const SHORTEST_REST = 4;
// Enough for the secrets of a worker. Beyond it the one registered longest ago is forgotten.
const MOST = 1000;
// Up to this number of forms are searched one by one.
const FEW = 256;
// How a line ends in a text, and in one that was escaped; an empty line separates.
const LINE_ENDS = /(?:\r?\n[ \t]*|(?:\\r)?\\n)+/g;
const LINE_END = /^(?:\r?\n[ \t]*|(?:\\r)?\\n)$/;

/** False below 8 characters, and below 12 for a single word of letters such as a table's name. */
export function canBeHidden(value: string): boolean {
  return value.length >= SHORTEST && (value.length >= SHORTEST_WORD || !WORD.test(value));
}

export class Registry {
  readonly #marker: string;
  readonly #values = new Map<string, readonly string[]>();
  #forms: readonly string[] = [];
  #byStart = new Map<string, string[]>();

  constructor(marker: string) {
    this.#marker = marker;
  }

  /** Returns false for a value that `canBeHidden` refuses; it is not registered. */
  add(value: string): boolean {
    if (!canBeHidden(value)) return false;
    const known = this.#values.get(value);
    this.#values.delete(value);
    this.#values.set(value, known ?? formsOf(value));
    if (known !== undefined) return true;
    if (this.#values.size > MOST) {
      const [oldest] = this.#values.keys();
      if (oldest !== undefined) this.#values.delete(oldest);
    }
    this.#index();
    return true;
  }

  has(value: string): boolean {
    return this.#values.has(value);
  }

  /** The text with every known value replaced; those that overlap or touch become one marker. */
  hide(text: string): string {
    if (this.#forms.length === 0) return text;
    const covered = new Uint8Array(text.length);
    for (const [start, end] of this.#find(text)) covered.fill(1, start, end);
    const joined = join(text);
    if (joined !== null) {
      for (const [start, end] of this.#find(joined.text)) {
        covered.fill(1, joined.original(start), joined.original(end - 1) + 1);
      }
    }
    return this.#replaced(text, covered);
  }

  /** The text without the rest of a known value whose beginning was cut off before it. */
  withoutHalf(text: string): string {
    const start = text.slice(0, SHORTEST_REST);
    if (start.trim() === "") return text;
    let longest = 0;
    for (const forms of this.#values.values()) {
      for (const form of forms) longest = Math.max(longest, halfAtTheStart(text, start, form));
    }
    return text.slice(longest);
  }

  *#find(text: string): Generator<readonly [number, number]> {
    for (const form of this.#candidates(text)) {
      for (let place = text.indexOf(form); place >= 0; ) {
        const end = place + form.length;
        yield [place, end];
        place = text.indexOf(form, end);
      }
    }
  }

  /** The forms to search: of many only those that begin somewhere in the text. */
  #candidates(text: string): readonly string[] {
    if (this.#forms.length <= Math.min(text.length, FEW)) return this.#forms;
    const starts = new Set<string>();
    for (let place = 0; place <= text.length - SHORTEST; place += 1) {
      const start = text.slice(place, place + SHORTEST);
      if (this.#byStart.has(start)) starts.add(start);
    }
    return [...starts].flatMap((start) => this.#byStart.get(start) ?? []);
  }

  #replaced(text: string, covered: Uint8Array): string {
    let start = covered.indexOf(1);
    if (start < 0) return text;
    const parts: string[] = [];
    let done = 0;
    while (start >= 0) {
      parts.push(text.slice(done, start), this.#marker);
      const end = covered.indexOf(0, start);
      done = end < 0 ? text.length : end;
      start = covered.indexOf(1, done);
    }
    return parts.join("") + text.slice(done);
  }

  #index(): void {
    this.#forms = [...new Set([...this.#values.values()].flat())];
    this.#byStart = new Map();
    for (const form of this.#forms) {
      const start = form.slice(0, SHORTEST);
      const others = this.#byStart.get(start);
      if (others === undefined) this.#byStart.set(start, [form]);
      else others.push(form);
    }
  }
}

interface Joined {
  readonly text: string;
  original(place: number): number;
}

/** The text without its single line ends, and where its characters were; null without any. */
function join(text: string): Joined | null {
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
    original: (place) => place + (shifts[lastUpTo(starts, place)] ?? 0),
  };
}

/** The index of the last of the ascending numbers that is not above the limit. */
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

function halfAtTheStart(text: string, start: string, form: string): number {
  for (let place = form.indexOf(start, 1); place > 0; place = form.indexOf(start, place + 1)) {
    if (text.startsWith(form.slice(place))) return form.length - place;
  }
  return 0;
}

function formsOf(value: string): readonly string[] {
  const written = [...escaped(value), ...inHtml(value), ...quoted(value)];
  const forms = [value, ...written, ...encoded(Buffer.from(value))];
  return [...new Set(forms.filter((form) => form.length >= SHORTEST))];
}

function escaped(value: string): string[] {
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

function inHtml(value: string): string[] {
  const plain = value.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  // Quotes have several names there.
  const named = ["&#x27;", "&#39;", "&#039;", "&apos;"].flatMap((apostrophe) =>
    ["&quot;", "&#34;"].map((quote) => plain.replaceAll("'", apostrophe).replaceAll('"', quote)),
  );
  return [plain, ...named];
}

function quoted(value: string): string[] {
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

function encoded(raw: Buffer): string[] {
  const forms = [raw.toString("base64"), raw.toString("hex"), raw.toString("hex").toUpperCase()];
  for (const before of [0, 1, 2] as const) forms.push(...withinBase64(raw, before));
  return forms.filter((form) => form.length >= SHORTEST);
}

/** What base64 shows of the value when so many bytes (modulo 3) stand before it. */
function withinBase64(raw: Buffer, before: 0 | 1 | 2): string[] {
  const text = Buffer.concat([Buffer.alloc(before), raw]).toString("base64");
  // Characters at both ends also hold bits of the neighbours.
  const own = text.slice([0, 2, 3][before], Math.floor(((before + raw.length) * 8) / 6));
  return [own, own.replaceAll("+", "-").replaceAll("/", "_")];
}
