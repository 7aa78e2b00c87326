/**
 * Hides secrets in whatever is shown: log lines, output tails, errors, notes.
 *
 * Three things make a value secret: the name it stands under (names.ts), its form (shapes.ts, and
 * assignments.ts for names within a text), and having been registered (registry.ts). The cases in
 * contract/cases/redaction.json hold for every language.
 */

import type { Json, JsonObject } from "../types/jobs.ts";
import { replaceUnencodable } from "../types/jsonb.ts";
import { hideAssignments } from "./assignments.ts";
import { isSecretName } from "./names.ts";
import {
  CURRENT_SCOPE,
  JOB_SECRETS,
  MARKER,
  OPERATOR_SECRETS,
  type RedactionScope,
  register,
} from "./scope.ts";
import { hidePemEnd, hidePrivateKeys, hideShapes } from "./shapes.ts";

export { canBeHidden } from "./registry.ts";
export { jobScope, LOG_SCOPE, MARKER, type RedactionScope } from "./scope.ts";
export { isSecretName };

const DEEPEST = 100;
const CUT_MARGIN = 4096;
// More than this under `tokens` or `keys` may be a secret, less is their number.
const MAX_COUNT = 10_000;
/** Why a value is not registered, for a warning. */
export const UNSAFE =
  "not hidden where it is printed: a secret must have 8 characters or more, and 12 if it is a" +
  " single word of letters";

/**
 * Hides this value from now on: in a job, in the output of its tenant's jobs; elsewhere, in the
 * output of all jobs. Returns false for a value that cannot be hidden: one of less than 8
 * characters, or a single word of letters of less than 12.
 */
export function registerSecret(value: string): boolean {
  return register(value);
}

/** Hides a secret of the installation in logs. It is never forgotten. */
export function registerOperatorSecret(value: string): boolean {
  return OPERATOR_SECRETS.add(value);
}

/** Hides a secret that a job was given in logs; the job's scope hides it in its output. */
export function registerJobSecret(value: string): boolean {
  return JOB_SECRETS.add(value);
}

/** The value with every secret in it hidden; what JSON cannot hold becomes a text. */
export function redact(value: unknown): Json {
  return hide(value, CURRENT_SCOPE);
}

/** The text with every secret in it hidden. */
export function redactText(text: string): string {
  return hideText(text, CURRENT_SCOPE);
}

/** The value with every secret hidden that is one in this scope. */
export function hide(value: unknown, scope: RedactionScope): Json {
  return redactJson(replaceUnencodable(value), scope, 0);
}

export function hideObject(value: JsonObject, scope: RedactionScope): JsonObject {
  return hide(value, scope) as JsonObject;
}

export function hideText(text: string, scope: RedactionScope): string {
  return hideRecognizable(scope.hide(text));
}

/** The text without the secrets that their name or their form gives away. */
function hideRecognizable(text: string): string {
  // Private keys first: they hold lines and signs that the others would take for ends.
  return hideShapes(hideAssignments(hidePrivateKeys(text, MARKER), MARKER), MARKER);
}

/**
 * The end of an output with every secret hidden, also one that the cut went through: when it
 * `isCut`, the first line is incomplete and is left out, up to 4,096 characters of it.
 */
export function redactTail(text: string, isCut: boolean, scope: RedactionScope): string {
  if (!isCut) return hideText(text, scope);
  const whole = hidePemEnd(scope.stripCutValue(text.replace(/^\ufffd+/, "")), MARKER);
  const shown = hideText(whole, scope);
  const line = shown.slice(0, CUT_MARGIN).indexOf("\n");
  return shown.slice(line >= 0 ? line + 1 : CUT_MARGIN);
}

/**
 * The beginning of a text with every secret hidden, also one that the cut goes through: of a text
 * that is longer than `most`, no more is read, and the last 4,096 characters are left out.
 */
export function redactHead(text: string, most: number, scope: RedactionScope): string {
  const shown = hideText(text.slice(0, most), scope);
  return text.length > most ? shown.slice(0, -CUT_MARGIN) : shown;
}

function redactJson(value: Json, scope: RedactionScope, depth: number): Json {
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "number") return scope.has(String(value)) ? MARKER : value;
  if (typeof value === "string") return hideText(value, scope);
  if (depth >= DEEPEST) return MARKER;
  if (isList(value)) return value.map((element) => redactElement(element, scope, depth + 1));
  return redactMembers(value, scope, depth);
}

function redactMembers(value: JsonObject, scope: RedactionScope, depth: number): JsonObject {
  const isNamed = secretIsNamed(value);
  const members = Object.entries(value).map(([name, inner = null]) => {
    const isSecret = isSecretName(name) || (isNamed && name === "value");
    const isHidden = isSecret && !isCount(name, inner);
    // Registered values are not searched in names: a password may be the name of a field.
    const shown = isHidden ? hideValue(inner) : redactJson(inner, scope, depth + 1);
    return [hideRecognizable(name), shown] as const;
  });
  return Object.fromEntries(members);
}

/** `{"api_keys": 3}` is a number of keys. */
function isCount(name: string, value: Json): boolean {
  const isSmall = Number.isInteger(value) && Number(value) >= 0 && Number(value) < MAX_COUNT;
  return typeof value === "number" && isSmall && name.toLowerCase().endsWith("s");
}

/** An element of a list; a pair there may be a name and its value, as headers often come. */
function redactElement(value: Json, scope: RedactionScope, depth: number): Json {
  if (isList(value) && value.length === 2) {
    const [name, inner = null] = value;
    if (typeof name === "string" && isSecretName(name)) {
      return [hideText(name, scope), hideValue(inner)];
    }
  }
  return redactJson(value, scope, depth);
}

/** `{"name": "Authorization", "value": …}`, as headers and variables are also written. */
function secretIsNamed(value: JsonObject): boolean {
  if (!("value" in value)) return false;
  return [value.name, value.key].some((name) => typeof name === "string" && isSecretName(name));
}

/** What stands under a secret name: that nothing is there, or a flag, tells no secret. */
function hideValue(value: Json): Json {
  return value === null || typeof value === "boolean" || value === "" ? value : MARKER;
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}
