/**
 * Values that are known to be secret, found in a text in whatever form they were written: as it is,
 * JSON-escaped, percent-encoded, in hexadecimal, and inside base64.
 */

const SHORTEST = 4;
// Enough for the secrets of a worker. Beyond it the one registered longest ago is forgotten.
const MOST = 1000;
// Base64 and hexadecimal of less would be found in ordinary words.
const SHORTEST_ENCODED = 8;
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
    const form = forms?.find((each) => text.startsWith(each, place));
    return form === undefined ? 0 : place + form.length;
  }
}

function halfAtTheStart(text: string, start: string, form: string): number {
  for (let place = form.indexOf(start, 1); place > 0; place = form.indexOf(start, place + 1)) {
    if (text.startsWith(form.slice(place))) return form.length - place;
  }
  return 0;
}

function formsOf(value: string): readonly string[] {
  const forms = [value, ...escaped(value), ...quoted(value), ...encoded(Buffer.from(value))];
  return [...new Set(forms.filter((form) => form.length >= SHORTEST))];
}

function escaped(value: string): string[] {
  const once = JSON.stringify(value).slice(1, -1);
  const ascii = once.replace(
    /[\u0080-\uffff]/g,
    (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  const twice = JSON.stringify(once).slice(1, -1);
  return [once, ascii, twice, value.replaceAll("\n", "\r\n")];
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
