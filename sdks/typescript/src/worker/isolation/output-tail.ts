/** The tail of a job's output, truncated, redacted, and escaped for display on a terminal. */

import { redactInBackground } from "../../redact/background.ts";
import type { RedactionScope } from "../../redact/index.ts";

const TAIL_BYTES = 64 * 1024;

export class OutputTail {
  #bytes = Buffer.alloc(0);
  #isCut = false;

  feed(data: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, data]);
    // The buffer may grow to twice the limit, so that not every chunk of a long stream copies it.
    if (this.#bytes.length > 2 * TAIL_BYTES) this.#cut();
  }

  includes(text: string): boolean {
    return this.#bytes.includes(text);
  }

  /** Return the redacted and escaped tail; undefined if nothing was printed. */
  async text(scope: RedactionScope): Promise<string | undefined> {
    if (this.#bytes.length === 0) return undefined;
    if (this.#bytes.length > TAIL_BYTES) this.#cut();
    const item = { tail: this.#bytes.toString("utf8"), isCut: this.#isCut };
    const [shown] = await redactInBackground([[item, scope]]);
    return Buffer.from(escapeControlCharacters(String(shown)))
      .subarray(-TAIL_BYTES)
      .toString("utf8")
      .replace(/^\ufffd+/, "");
  }

  #cut(): void {
    this.#bytes = Buffer.from(this.#bytes.subarray(-TAIL_BYTES));
    this.#isCut = true;
  }
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not get through
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

/** Replace characters that control a terminal. */
function escapeControlCharacters(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(CONTROLS, (letter) => {
    const code = letter.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return code < 0xa0 ? `\\x${code.toString(16)}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}
