/** Translates driver errors to errors of errors.ts by their SQLSTATE, never by their text. */

import {
  CONTENDED_SQLSTATES,
  Contended,
  DENIED_SQLSTATES,
  Denied,
  ERRORS,
  JobForgeError,
  UNAVAILABLE_SQLSTATES,
  Unavailable,
} from "../errors.ts";

const BY_SQLSTATE = new Map(
  ERRORS.flatMap((error) => (error.sqlstate === null ? [] : [[error.sqlstate, error] as const])),
);
const BY_CODE = new Map(ERRORS.map((error) => [error.code, error] as const));

/**
 * Return the error for a SQLSTATE. `detail` is its DETAIL field, which JobForge's functions fill
 * with JSON.
 */
export function errorFromSqlstate(
  state: string | null,
  message: string,
  detail?: string | null,
  cause?: unknown,
  hint?: string | null,
): JobForgeError {
  const kind = state === null ? undefined : BY_SQLSTATE.get(state);
  if (kind !== undefined) {
    const parsedDetail = parseDetail(detail);
    const field = typeof parsedDetail.field === "string" ? parsedDetail.field : undefined;
    return new kind(message, { field, detail: parsedDetail, hint: hint ?? undefined, cause });
  }
  if (state !== null && DENIED_SQLSTATES.has(state)) return new Denied(message, { cause });
  if (state !== null && CONTENDED_SQLSTATES.has(state)) {
    return new Contended(message, { detail: { sqlstate: state }, cause });
  }
  if (state === null || state.startsWith("08") || UNAVAILABLE_SQLSTATES.has(state)) {
    return new Unavailable(message, { cause });
  }
  return new JobForgeError(message, { detail: { sqlstate: state }, cause });
}

/** Return the class with this code. */
export function classFromCode(code: string): typeof JobForgeError {
  return BY_CODE.get(code) ?? JobForgeError;
}

/** Wait for a driver; its errors become errors of errors.ts. */
export async function orTranslate<T>(pending: PromiseLike<T>): Promise<T> {
  try {
    return await pending;
  } catch (error) {
    throw translateError(error);
  }
}

/** Translate any error of a driver. An error without a SQLSTATE is a network error. */
export function translateError(error: unknown): JobForgeError {
  if (error instanceof JobForgeError) return error;
  const found = findDriverError(error);
  if (found !== null) {
    return errorFromSqlstate(found.code, found.message, found.detail, error, found.hint);
  }
  return errorFromSqlstate(
    null,
    error instanceof Error ? error.message : String(error),
    null,
    error,
  );
}

// Excludes Node's codes such as EPIPE, and Prisma's own codes such as P2010.
const SQLSTATE = /^(?!E[A-Z]{4}|P[1-9])[0-9A-Z]{5}$/;

interface DriverError {
  readonly code: string;
  readonly message: string;
  readonly detail?: string | null;
  readonly hint?: string | null;
}

/**
 * Return the driver's error. Query builders wrap it: as the cause, or, in Prisma, within `meta`.
 */
function findDriverError(error: unknown, depth = 0): DriverError | null {
  if (typeof error !== "object" || error === null || depth > 4) return null;
  const given = error as {
    code?: unknown;
    message?: unknown;
    detail?: unknown;
    hint?: unknown;
    cause?: unknown;
  };
  if (typeof given.code === "string" && SQLSTATE.test(given.code)) {
    const detail = typeof given.detail === "string" ? given.detail : null;
    const hint = typeof given.hint === "string" ? given.hint : null;
    return { code: given.code, message: String(given.message ?? ""), detail, hint };
  }
  const { meta } = error as { readonly meta?: { readonly driverAdapterError?: unknown } };
  return (
    findDriverError(given.cause, depth + 1) ??
    findDriverError(meta, depth + 1) ??
    findDriverError(meta?.driverAdapterError, depth + 1)
  );
}

function parseDetail(detail: string | null | undefined): Record<string, unknown> {
  // Postgres itself fills DETAIL with prose; JobForge's functions fill it with a JSON object.
  if (!detail?.startsWith("{")) return {};
  try {
    return JSON.parse(detail) as Record<string, unknown>;
  } catch {
    return {};
  }
}
