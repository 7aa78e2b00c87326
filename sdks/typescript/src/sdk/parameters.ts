/**
 * Validates payloads and results: a Zod schema checks a payload when it is enqueued and again when
 * it runs. Omitted fields are not stored, so the schema's defaults at the time of the run apply.
 */

import { z } from "zod";
import { Invalid, InvalidPayload } from "../errors.ts";
import type { Json, JsonObject } from "../types/jobs.ts";
import { encode } from "../types/jsonb.ts";

const MAX_ERRORS = 20; // reported for one payload

/**
 * Return the JSON Schema of the payload. Throws Invalid if JSON cannot represent the parameters.
 */
export function buildSchema(params: z.ZodObject, key: string): JsonObject {
  try {
    return z.toJSONSchema(params, { io: "input" }) as unknown as JsonObject;
  } catch (error) {
    throw new Invalid(
      `The parameters of ${key} cannot be written as JSON: ${getErrorMessage(error)}`,
      {
        field: "params",
        cause: error,
      },
    );
  }
}

/**
 * Return the payload of these arguments as given, without defaults. Throws InvalidPayload if the
 * schema rejects them.
 */
export function buildPayload(params: z.ZodObject, given: unknown): JsonObject {
  const read = params.safeParse(given ?? {});
  if (!read.success) throw invalidPayloadError(read.error);
  try {
    return JSON.parse(encode(given ?? {}, "payload")) as JsonObject;
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    const { field, detail, hint } = error;
    throw new InvalidPayload(error.message, { field, detail, hint });
  }
}

/**
 * Whether the document is a reference to an artifact, which replaces a document too large for a
 * row; see docs/artifacts.md.
 */
export function isArtifactReference(document: unknown): boolean {
  if (typeof document !== "object" || document === null) return false;
  return "$artifact" in document && Object.keys(document).length === 1;
}

/** Return the handler's arguments for a payload, with defaults. */
export function parseArguments<P extends z.ZodObject>(params: P, payload: unknown): z.output<P> {
  const read = params.safeParse(payload);
  if (!read.success) throw invalidPayloadError(read.error);
  return read.data;
}

/**
 * Return the result as JSON. Throws Invalid if it is not valid JSON or not of the declared type.
 */
export function dumpResult(result: z.ZodType | undefined, given: unknown): Json | undefined {
  const checked = result === undefined ? given : checkResult(result, given);
  if (checked === undefined || checked === null) return undefined;
  const text = encode(checked, "result");
  return typeof checked === "object" ? (JSON.parse(text) as Json) : (checked as Json);
}

function checkResult(result: z.ZodType, given: unknown): unknown {
  const read = result.safeParse(given);
  if (read.success) return read.data;
  throw new Invalid(
    `The result does not match its declared type: ${listErrors(read.error)[0]?.message}`,
    {
      field: "result",
    },
  );
}

function invalidPayloadError(error: z.ZodError): InvalidPayload {
  const errors = listErrors(error);
  const first = errors[0];
  const where = first?.field ? `${first.field}: ` : "";
  return new InvalidPayload(
    `${where}${first?.message ?? "The arguments do not match the definition's parameters"}`,
    {
      field: first?.field || undefined,
      detail: { errors },
    },
  );
}

function listErrors(error: z.ZodError): { field: string; message: string }[] {
  return error.issues
    .slice(0, MAX_ERRORS)
    .map((issue) => ({ field: issue.path.map(String).join("."), message: issue.message }));
}

function getErrorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
