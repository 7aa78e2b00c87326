/**
 * Values that are known to be secret, found in a text in whatever form they were written: as it is,
 * JSON-escaped, in HTML, percent-encoded, in hexadecimal, and inside base64; of eight characters or
 * more also when a line ends in the midst of it.
 */

const SHORTEST = 4;
// Enough for the secrets of a worker. Beyond it the one registered longest ago is forgotten.
const MOST = 1000;
// Base64 and hexadecimal of less would be found in ordinary words.
const SHORTEST_ENCODED = 8;
// How a line ends in a text, and in one that was escaped.
const LINE_END = /\r?\n[ \t]*|(?:\\r)?\\n/y;
const TRIVIAL = new Set(["true", "false", "null", "none", "undefined", "localhost", "postgres"]);

export class Registry {
  readonly #marker: string;
  readonly #values = new Map<string, readonly string[]>();
  #byStart = new Map<string, string[]>();

  constructor(marker: string) {
    this.#marker = marker;
  }

  add(value: string): void {
    const isTrivial = TRIVIAL.has(value.toLowerCase()) || this.#marker.includes(value);
    if (value.length < SHORTEST || isTrivial) return;
    const known = this.#values.get(value);
    this.#values.delete(value);
    this.#values.set(value, known ?? formsOf(value));
    if (known !== undefined) return;
    if (this.#values.size > MOST) {
      const [oldest] = this.#values.keys();
      if (oldest !== undefined) this.#values.delete(oldest);
    }
    this.#file();
  }

  /** The text with every known value replaced. */
  hide(text: string): string {
    if (this.#byStart.size === 0) return text;
    const parts: string[] = [];
    let done = 0;
    let place = 0;
    while (place <= text.length - SHORTEST) {
      const end = this.#endAt(text, place);
      if (end === 0) {
        place += 1;
        continue;
      }
      parts.push(text.slice(done, place), this.#marker);
      done = place = end;
    }
    return parts.length > 0 ? parts.join("") + text.slice(done) : text;
  }

  /** The text without the rest of a known value whose beginning was cut off before it. */
  withoutHalf(text: string): string {
    const start = text.slice(0, SHORTEST);
    if (start.trim() === "") return text;
    let longest = 0;
    for (const forms of this.#values.values()) {
      for (const form of forms) longest = Math.max(longest, halfAtTheStart(text, start, form));
    }
    return text.slice(longest);
  }

  #file(): void {
    // Filed under the first characters, so that a text is read once however many values there are.
    this.#byStart = new Map();
    for (const form of new Set([...this.#values.values()].flat())) {
      const start = form.slice(0, SHORTEST);
      const others = this.#byStart.get(start) ?? [];
      this.#byStart.set(
        start,
        [...others, form].sort((one, other) => other.length - one.length),
      );
    }
  }

  #endAt(text: string, place: number): number {
    const forms = this.#byStart.get(text.slice(place, place + SHORTEST));
    if (forms === undefined) return 0;
    const form = forms.find((each) => text.startsWith(each, place));
    if (form !== undefined) return place + form.length;
    const ends = forms.map((each) => endAcrossLines(text, place, each));
    return ends.find((end) => end > 0) ?? 0;
  }
}

/** 0 when it is not there; base64 is often written in lines. */
function endAcrossLines(text: string, start: number, form: string): number {
  if (form.length < SHORTEST_ENCODED) return 0;
  let place = start;
  for (let index = 0; index < form.length; index += 1, place += 1) {
    if (text[place] === form[index]) continue;
    LINE_END.lastIndex = place;
    if (!LINE_END.test(text) || text[LINE_END.lastIndex] !== form[index]) return 0;
    place = LINE_END.lastIndex;
  }
  return place;
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
  return forms.filter((form) => form.length >= SHORTEST_ENCODED);
}

/** What base64 shows of the value when so many bytes (modulo 3) stand before it. */
function withinBase64(raw: Buffer, before: 0 | 1 | 2): string[] {
  const text = Buffer.concat([Buffer.alloc(before), raw]).toString("base64");
  // Characters at both ends also hold bits of the neighbours.
  const own = text.slice([0, 2, 3][before], Math.floor(((before + raw.length) * 8) / 6));
  return [own, own.replaceAll("+", "-").replaceAll("/", "_")];
}
