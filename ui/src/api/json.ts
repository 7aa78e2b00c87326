/** JSON without loss: numbers that JavaScript cannot represent keep their original digits. */

export class Exact {
  readonly source: string;
  constructor(source: string) {
    this.source = source;
  }
  toString(): string {
    return this.source;
  }
}

export type Json = null | boolean | number | string | Exact | Json[] | { [name: string]: Json };

type Reviver = (name: string, value: unknown, context?: { source?: string }) => unknown;
const parseWith = JSON.parse as (text: string, reviver?: Reviver) => unknown;

const LONG = /\d{16}/;

export function parse(text: string): unknown {
  return LONG.test(text) ? parseWith(text, reviveExact) : JSON.parse(text);
}

function reviveExact(_name: string, value: unknown, context?: { source?: string }): unknown {
  const source = context?.source;
  if (typeof value !== "number" || source === undefined) return value;
  return Number.isSafeInteger(value) || digits(source) < 16 ? value : new Exact(source);
}

function digits(source: string): number {
  return source.replace(/[eE].*$/, "").replace(/\D/g, "").length;
}

/** Format a value as indented JSON with every number as it was received. */
export function print(value: unknown, indent = ""): string {
  if (value instanceof Exact) return value.source;
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const inner = `${indent}  `;
  const [open, close, parts] = Array.isArray(value)
    ? ["[", "]", value.map((each) => print(each, inner))]
    : [
        "{",
        "}",
        Object.entries(value).map(
          ([name, each]) => `${JSON.stringify(name)}: ${print(each, inner)}`,
        ),
      ];
  if (parts.length === 0) return open + close;
  return `${open}\n${parts.map((part) => inner + part).join(",\n")}\n${indent}${close}`;
}

/** Format a value on one line. */
export function printShort(value: unknown): string {
  if (value instanceof Exact) return value.source;
  if (Array.isArray(value)) return `[${value.map(printShort).join(", ")}]`;
  if (value !== null && typeof value === "object") {
    return `{${Object.entries(value)
      .map(([name, each]) => `${JSON.stringify(name)}: ${printShort(each)}`)
      .join(", ")}}`;
  }
  return JSON.stringify(value) ?? "null";
}
