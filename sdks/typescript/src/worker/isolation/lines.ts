/**
 * Encodes and decodes the messages on the socket between a worker and a job's process: one JSON
 * document per line. The length of a line is bounded, so that a job cannot exhaust its worker's
 * memory; Node's IPC channel has no such bound.
 */

/** More than the engine stores of any payload or result. */
export const MAX_LINE_BYTES = 32 * 1024 ** 2;

const LINE_FEED = 0x0a;

/** Data received on the socket is not a message that this SDK sends. */
export class InvalidLine extends Error {}

/** Splits a stream of bytes into JSON documents. */
export class LineDecoder {
  readonly #maxBytes: number;
  #parts: Buffer[] = [];
  #length = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Yield each complete document with its length in bytes. */
  *feed(data: Buffer): Generator<readonly [document: unknown, length: number]> {
    let start = 0;
    for (let end = data.indexOf(LINE_FEED); end >= 0; end = data.indexOf(LINE_FEED, start)) {
      this.#append(data.subarray(start, end));
      const line = Buffer.concat(this.#parts, this.#length);
      this.#parts = [];
      this.#length = 0;
      start = end + 1;
      yield [parseLine(line), line.length];
    }
    if (start < data.length) this.#append(data.subarray(start));
  }

  #append(part: Buffer): void {
    this.#length += part.length;
    if (this.#length > this.#maxBytes) throw new InvalidLine();
    this.#parts.push(part);
  }
}

/** Return the document as one line. JSON escapes line feeds. */
export function encodeLine(document: object): string {
  return `${JSON.stringify(document)}\n`;
}

function parseLine(line: Buffer): unknown {
  try {
    return JSON.parse(line.toString("utf8"));
  } catch {
    throw new InvalidLine();
  }
}
