/** JSON as Postgres keeps it. What jsonb cannot hold is refused here, before anything is sent. */

import { Invalid } from "../errors.ts";
import type { Json } from "./jobs.ts";

const MAX_DEPTH = 64; // as the engine has it
const MAX_OBJECTS = 10_000; // more than there is room for in a note

/** A value that jsonb cannot hold, or that is too long as text. */
interface Fault {
  readonly what: string;
  readonly path: string;
  readonly hint?: string;
}

const AS_STRING = "Send the number as a string";
const WITHOUT_NUL = "Remove the character, or send the bytes as base64";

/** The value as JSON text; Invalid with field and path when something in it would be lost. */
export function encode(value: unknown, field: string): string {
  const fault = findFault(value, 0, "$");
  if (fault !== null) {
    const { what, path, hint } = fault;
    const message = `${field} has ${what} at ${path}, which cannot be stored`;
    throw new Invalid(message, { field, detail: { path }, hint });
  }
  return JSON.stringify(value) ?? "null";
}

/** The value with whatever jsonb cannot keep put into words: for messages, not for results. */
export function replaceUnencodable(value: unknown): Json {
  return replaceValue(value, 0, { objects: MAX_OBJECTS });
}

/** What is tied to many others, as a request or a socket is, ends when there is no more `left`. */
function replaceValue(value: unknown, depth: number, left: { objects: number }): Json {
  if (typeof value === "string") return value.replaceAll("\0", "\ufffd").toWellFormed();
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  if (value === undefined) return null;
  if (typeof value !== "object" || depth >= MAX_DEPTH || left.objects <= 0)
    return describeValue(value);
  left.objects -= 1;
  return orUnreadable(() => replaceInObject(value, depth + 1, left));
}

function replaceInObject(value: object, depth: number, left: { objects: number }): Json {
  if ("toJSON" in value && typeof value.toJSON === "function") {
    return replaceValue(value.toJSON(), depth, left);
  }
  if (value instanceof Error) return `${value.name}: ${replaceUnencodable(value.message)}`;
  if (Array.isArray(value)) return value.map((inner) => replaceValue(inner, depth, left));
  const members = Object.entries(value).map(
    ([name, inner]) =>
      [String(replaceUnencodable(name)), replaceValue(inner, depth, left)] as const,
  );
  return Object.fromEntries(members);
}

function describeValue(value: unknown): string {
  return typeof value === "bigint" || typeof value === "symbol"
    ? String(value)
    : `<${typeof value}>`;
}

function orUnreadable(make: () => Json): Json {
  try {
    return make();
  } catch {
    return "<unreadable>";
  }
}

function findFault(value: unknown, depth: number, path: string): Fault | null {
  switch (typeof value) {
    case "string":
      if (value.includes("\0")) return { what: "the character NUL", path, hint: WITHOUT_NUL };
      return value.isWellFormed() ? null : { what: "half of a surrogate pair", path };
    case "number":
      return Number.isFinite(value) ? null : { what: `the number ${value}`, path, hint: AS_STRING };
    case "bigint":
      return { what: "a BigInt", path, hint: AS_STRING };
    case "function":
    case "symbol":
      return { what: `a ${typeof value}`, path };
    case "object":
      return value === null ? null : findFaultInObject(value, depth, path);
    default:
      return null;
  }
}

function findFaultInObject(value: object, depth: number, path: string): Fault | null {
  // Also what contains itself ends here.
  if (depth > 2 * MAX_DEPTH) return { what: "more levels than there may be", path: "$" };
  if ("toJSON" in value && typeof value.toJSON === "function") {
    const replaceValue: unknown = value.toJSON("");
    // Of what it gives, no toJSON is asked again.
    const isObject = typeof replaceValue === "object" && replaceValue !== null;
    return isObject
      ? findFaultInMembers(replaceValue, depth, path)
      : findFault(replaceValue, depth, path);
  }
  return findFaultInMembers(value, depth, path);
}

function findFaultInMembers(value: object, depth: number, path: string): Fault | null {
  if (value instanceof Map || value instanceof Set) return { what: "a Map or a Set", path };
  const isArray = Array.isArray(value);
  for (const [name, inner] of Object.entries(value)) {
    const step = isArray ? `[${name}]` : `.${name}`;
    const fault = findFault(name, depth, path) ?? findFault(inner, depth + 1, path + step);
    if (fault !== null) return fault;
  }
  return null;
}
