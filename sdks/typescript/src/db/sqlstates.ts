/** Where the error of a driver becomes one of ours: by its SQLSTATE, never by its text. */

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

/** The error that a SQLSTATE stands for; `detail` is its DETAIL, JSON when it is ours. */
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

/** The class that a server names by its code. */
export function classFromCode(code: string): typeof JobForgeError {
  return BY_CODE.get(code) ?? JobForgeError;
}

/** Whatever a driver threw. What has no SQLSTATE came from the network. */
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

// Not EPIPE and its like, and not Prisma's own P2010.
const SQLSTATE = /^(?!E[A-Z]{4}|P[1-9])[0-9A-Z]{5}$/;

interface DriverError {
  readonly code: string;
  readonly message: string;
  readonly detail?: string | null;
  readonly hint?: string | null;
}

/** Query builders wrap the driver's error: it is the cause, or Prisma has it within `meta`. */
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
  // Postgres itself fills DETAIL with prose; only ours is a JSON object.
  if (!detail?.startsWith("{")) return {};
  try {
    return JSON.parse(detail) as Record<string, unknown>;
  } catch {
    return {};
  }
}
