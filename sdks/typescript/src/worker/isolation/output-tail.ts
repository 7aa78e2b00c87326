/** The end of what a job printed: kept small, made safe to store and to show on a terminal. */

import { redactInBackground } from "../../redact/background.ts";
import type { RedactionScope } from "../../redact/index.ts";

const TAIL_BYTES = 64 * 1024;

export class OutputTail {
  #bytes = Buffer.alloc(0);
  #isCut = false;

  feed(data: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, data]);
    // Half of it is let grow, so that a long stream is not moved with every piece.
    if (this.#bytes.length > 2 * TAIL_BYTES) this.#cut();
  }

  includes(text: string): boolean {
    return this.#bytes.includes(text);
  }

  /** What is left of it, for people; undefined when nothing was printed. */
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

/** The text without any character that a terminal would obey. */
function escapeControlCharacters(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(CONTROLS, (letter) => {
    const code = letter.charCodeAt(0);
    if (code < 0x20) return String.fromCharCode(0x2400 + code);
    if (code === 0x7f) return "\u2421";
    return code < 0xa0 ? `\\x${code.toString(16)}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}
