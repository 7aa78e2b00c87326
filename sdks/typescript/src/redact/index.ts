/**
 * Hides secrets in all output: log lines, output tails, errors, notes.
 *
 * A value is secret because of its name (names.ts; assignments.ts for names within a text), its
 * form (shapes.ts), or because it was registered (registry.ts). The cases in
 * contract/cases/redaction.json apply to all languages.
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
// A number up to this under `tokens` or `keys` is a count; a larger one may be a secret.
const MAX_COUNT = 10_000;
/** Why a value is not registered, for a warning. */
export const UNSAFE =
  "not redacted in output: a secret must have at least 8 characters, or 12 if it is a" +
  " single word of letters";

/**
 * Redact this value from now on. If called in a job, this applies to the output of the tenant's
 * jobs; otherwise, to the output of all jobs. Returns false if the value cannot be redacted because
 * it has fewer than 8 characters, or fewer than 12 if it consists of letters only.
 */
export function registerSecret(value: string): boolean {
  return register(value);
}

/** Redact a secret of the installation in logs. Such secrets are never evicted. */
export function registerOperatorSecret(value: string): boolean {
  return OPERATOR_SECRETS.add(value);
}

/**
 * Redact a secret that a job received in logs. The job's own scope redacts it in the job's output.
 */
export function registerJobSecret(value: string): boolean {
  return JOB_SECRETS.add(value);
}

/** Return the value with all secrets redacted. Values that JSON cannot represent become strings. */
export function redact(value: unknown): Json {
  return hide(value, CURRENT_SCOPE);
}

/** Return the text with all secrets redacted. */
export function redactText(text: string): string {
  return hideText(text, CURRENT_SCOPE);
}

/** Return the value with the secrets of this scope redacted. */
export function hide(value: unknown, scope: RedactionScope): Json {
  return redactJson(replaceUnencodable(value), scope, 0);
}

export function hideObject(value: JsonObject, scope: RedactionScope): JsonObject {
  return hide(value, scope) as JsonObject;
}

export function hideText(text: string, scope: RedactionScope): string {
  return hideRecognizable(scope.hide(text));
}

/** Hide secrets that are recognizable by their name or form. */
function hideRecognizable(text: string): string {
  // Private keys first: they contain line ends and characters at which the other patterns would
  // stop.
  return hideShapes(hideAssignments(hidePrivateKeys(text, MARKER), MARKER), MARKER);
}

/**
 * Redact the tail of an output, including a secret that was cut in two. If `isCut`, the incomplete
 * first line is dropped, at most 4,096 characters of it.
 */
export function redactTail(text: string, isCut: boolean, scope: RedactionScope): string {
  if (!isCut) return hideText(text, scope);
  const whole = hidePemEnd(scope.stripCutValue(text.replace(/^\ufffd+/, "")), MARKER);
  const shown = hideText(whole, scope);
  const line = shown.slice(0, CUT_MARGIN).indexOf("\n");
  return shown.slice(line >= 0 ? line + 1 : CUT_MARGIN);
}

/**
 * Redact the head of a text, including a secret that is cut in two. Only the first `most`
 * characters of a longer text are read, and the last 4,096 of these are dropped.
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
    // Registered values are not searched in names: a password may equal the name of a field.
    const shown = isHidden ? hideValue(inner) : redactJson(inner, scope, depth + 1);
    return [hideRecognizable(name), shown] as const;
  });
  return Object.fromEntries(members);
}

/** Whether the number is a count, as in `{"api_keys": 3}`. */
function isCount(name: string, value: Json): boolean {
  const isSmall = Number.isInteger(value) && Number(value) >= 0 && Number(value) < MAX_COUNT;
  return typeof value === "number" && isSmall && name.toLowerCase().endsWith("s");
}

/** Redact an element of a list. A pair may be a name and its value, as in lists of headers. */
function redactElement(value: Json, scope: RedactionScope, depth: number): Json {
  if (isList(value) && value.length === 2) {
    const [name, inner = null] = value;
    if (typeof name === "string" && isSecretName(name)) {
      return [hideText(name, scope), hideValue(inner)];
    }
  }
  return redactJson(value, scope, depth);
}

/**
 * Whether the object is a named value such as `{"name": "Authorization", "value": …}`, as in lists
 * of headers or variables.
 */
function secretIsNamed(value: JsonObject): boolean {
  if (!("value" in value)) return false;
  return [value.name, value.key].some((name) => typeof name === "string" && isSecretName(name));
}

/**
 * Hide the value of a secret name. Null, booleans and empty strings reveal nothing and are kept.
 */
function hideValue(value: Json): Json {
  return value === null || typeof value === "boolean" || value === "" ? value : MARKER;
}

function isList(value: Json): value is readonly Json[] {
  return Array.isArray(value);
}
