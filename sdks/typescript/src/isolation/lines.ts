/**
 * Cuts what comes over the socket between a worker and a job's process into JSON documents, one per
 * line. The length of a line has a bound, so that a job cannot fill the memory of its worker: Node's
 * own channel between processes has none.
 */

/** In bytes. More than the engine stores of any payload or result. */
export const LONGEST_LINE = 32 * 1024 ** 2;

const LINE_FEED = 0x0a;

/** The other process has sent something that this SDK does not send. */
export class BrokenLine extends Error {}

export class Lines {
  readonly #longest: number;
  #parts: Buffer[] = [];
  #length = 0;

  constructor(longest: number) {
    this.#longest = longest;
  }

  /** Return each document that is complete, with its length in bytes. */
  *feed(data: Buffer): Generator<readonly [document: unknown, length: number]> {
    let start = 0;
    for (let end = data.indexOf(LINE_FEED); end >= 0; end = data.indexOf(LINE_FEED, start)) {
      this.#keep(data.subarray(start, end));
      const line = Buffer.concat(this.#parts, this.#length);
      this.#parts = [];
      this.#length = 0;
      start = end + 1;
      yield [read(line), line.length];
    }
    if (start < data.length) this.#keep(data.subarray(start));
  }

  #keep(part: Buffer): void {
    this.#length += part.length;
    if (this.#length > this.#longest) throw new BrokenLine();
    this.#parts.push(part);
  }
}

/** The document as a line; JSON has no line feeds of its own. */
export function lineOf(document: object): string {
  return `${JSON.stringify(document)}\n`;
}

function read(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString("utf8"));
  } catch {
    throw new BrokenLine();
  }
}
