/**
 * Encodes values as JSON that jsonb can store. Values that jsonb cannot store are rejected here,
 * before the statement is sent.
 */

import { Invalid } from "../errors.ts";
import type { Json } from "./jobs.ts";

const MAX_DEPTH = 64; // the engine's limit
const MAX_OBJECTS = 10_000; // more than a note can hold

/** A value that jsonb cannot store, or that is too long. */
interface Fault {
  readonly what: string;
  readonly path: string;
  readonly hint?: string;
}

const AS_STRING = "Send the number as a string";
const WITHOUT_NUL = "Remove the character, or send the bytes as base64";

/**
 * Return the value as JSON text. Throws Invalid with field and path if JSON would lose a part of
 * the value.
 */
export function encode(value: unknown, field: string): string {
  const fault = findFault(value, 0, "$");
  if (fault !== null) {
    const { what, path, hint } = fault;
    const message = `${field} contains ${what} at ${path}, which cannot be stored`;
    throw new Invalid(message, { field, detail: { path }, hint });
  }
  return JSON.stringify(value) ?? "null";
}

/**
 * Return the value with all parts that jsonb cannot store replaced by a description. For messages,
 * not for results.
 */
export function replaceUnencodable(value: unknown): Json {
  return replaceValue(value, 0, { objects: MAX_OBJECTS });
}

/**
 * Objects with many references, such as requests or sockets, are cut off when `left.objects`
 * reaches 0.
 */
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
      if (value.includes("\0")) return { what: "the NUL character", path, hint: WITHOUT_NUL };
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
  // Cyclic objects end here.
  if (depth > 2 * MAX_DEPTH) return { what: "too many levels", path: "$" };
  if ("toJSON" in value && typeof value.toJSON === "function") {
    const json: unknown = value.toJSON("");
    // As in JSON.stringify, a toJSON method of the returned object is not called.
    const isObject = typeof json === "object" && json !== null;
    return isObject ? findFaultInMembers(json, depth, path) : findFault(json, depth, path);
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
