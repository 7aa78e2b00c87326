/**
 * Hides secrets in whatever is shown: log lines, output tails, errors, notes.
 *
 * Three things make a value secret: the name it stands under (names.ts), its form (shapes.ts, and
 * assignments.ts for names within a text), and having been registered (registry.ts). The cases in
 * contract/cases/redaction.json hold for every language.
 */

import type { Json, JsonObject } from "../job.ts";
import { legible } from "../jsonb.ts";
import { hideAssigned } from "./assignments.ts";
import { isSecretName } from "./names.ts";
import { Registry } from "./registry.ts";
import { hidePrivateKeys, hideShapes, withoutPemEnd } from "./shapes.ts";

export { isSecretName };

export const MARKER = "[redacted]";

const DEEPEST = 100;
const LONGEST_FIRST_LINE = 4096;
// More than this under `tokens` or `keys` may be a secret, less is their number.
const MOST_COUNTED = 10_000;
const registry = new Registry(MARKER);

/**
 * Hides this value from now on. Returns false for a value that cannot be hidden: one of less than 8
 * characters, or a single word of letters of less than 12.
 */
export function registerSecret(value: string): boolean {
  return registry.add(value);
}

/** The value with every secret in it hidden; what JSON cannot hold becomes a text. */
export function redact(value: unknown): Json {
  return redacted(legible(value), 0);
}

export function redactObject(value: JsonObject): JsonObject {
  return redact(value) as JsonObject;
}

/** The text with every secret in it hidden. */
export function redactText(text: string): string {
  return withoutTelling(registry.hide(text));
}

/** The text without the secrets that their name or their form gives away. */
function withoutTelling(text: string): string {
  // Private keys first: they hold lines and signs that the others would take for ends.
  return hideShapes(hideAssigned(hidePrivateKeys(text, MARKER), MARKER), MARKER);
}

/**
 * The end of an output with every secret hidden, also one that the cut went through: when it
 * `isCut`, the first line is incomplete and is left out, up to 4,096 characters of it.
 */
export function redactTail(text: string, isCut: boolean): string {
  if (!isCut) return redactText(text);
  const whole = withoutPemEnd(registry.withoutHalf(text.replace(/^\ufffd+/, "")), MARKER);
  const shown = redactText(whole);
  const line = shown.slice(0, LONGEST_FIRST_LINE).indexOf("\n");
  return shown.slice(line >= 0 ? line + 1 : LONGEST_FIRST_LINE);
}

function redacted(value: Json, depth: number): Json {
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "number") return registry.has(String(value)) ? MARKER : value;
  if (typeof value === "string") return redactText(value);
  if (depth >= DEEPEST) return MARKER;
  if (isList(value)) return value.map((element) => redactedElement(element, depth + 1));
  return redactedObject(value, depth);
}

function redactedObject(value: JsonObject, depth: number): JsonObject {
  const isNamed = secretIsNamed(value);
  const members = Object.entries(value).map(([name, inner = null]) => {
    const isSecret = isSecretName(name) || (isNamed && name === "value");
    const isHidden = isSecret && !isCount(name, inner);
    // Registered values are not searched in names: a password may be the name of a field.
    const shown = isHidden ? hidden(inner) : redacted(inner, depth + 1);
    return [withoutTelling(name), shown] as const;
  });
  return Object.fromEntries(members);
}

/** `{"api_keys": 3}` is a number of keys. */
function isCount(name: string, value: Json): boolean {
  const isSmall = Number.isInteger(value) && Number(value) >= 0 && Number(value) < MOST_COUNTED;
  return typeof value === "number" && isSmall && name.toLowerCase().endsWith("s");
}

/** An element of a list; a pair there may be a name and its value, as headers often come. */
function redactedElement(value: Json, depth: number): Json {
  if (isList(value) && value.length === 2) {
    const [name, inner = null] = value;
    if (typeof name === "string" && isSecretName(name)) return [redactText(name), hidden(inner)];
  }
  return redacted(value, depth);
}

/** `{"name": "Authorization", "value": …}`, as headers and variables are also written. */
function secretIsNamed(value: JsonObject): boolean {
  if (!("value" in value)) return false;
  return [value.name, value.key].some((name) => typeof name === "string" && isSecretName(name));
}

/** What stands under a secret name: that nothing is there, or a flag, tells no secret. */
function hidden(value: Json): Json {
  return value === null || typeof value === "boolean" || value === "" ? value : MARKER;
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}
