/**
 * Every error that JobForge raises. scripts/write_errors.py writes this file from
 * jobforge/errors.py, so that both languages have the same errors. Change them there.
 *
 * `code` is stable and is what programs compare; messages are for people and may change.
 */

export interface ErrorFacts {
  readonly field?: string | undefined;
  readonly detail?: Readonly<Record<string, unknown>> | undefined;
  readonly hint?: string | undefined;
  readonly cause?: unknown;
}

/** The operation failed. */
export class JobForgeError extends Error {
  static readonly code: string = "error";
  static readonly sqlstate: string | null = null;
  static readonly message: string = "The operation failed";
  readonly field: string | undefined;
  readonly detail: Readonly<Record<string, unknown>>;
  readonly hint: string | undefined;

  constructor(message?: string | null, facts: ErrorFacts = {}) {
    super(message || new.target.message, facts.cause === undefined ? {} : { cause: facts.cause });
    this.name = new.target.name;
    this.field = facts.field;
    this.detail = facts.detail ?? {};
    this.hint = facts.hint;
  }

  get code(): string {
    return (this.constructor as typeof JobForgeError).code;
  }
}

/** A tenant is required. */
export class TenantRequired extends JobForgeError {
  static override readonly code: string = "tenant_required";
  static override readonly sqlstate: string | null = "JF001";
  static override readonly message: string = "A tenant is required";
}

/** A value is invalid; `field` is its path. */
export class Invalid extends JobForgeError {
  static override readonly code: string = "invalid";
  static override readonly sqlstate: string | null = "JF002";
  static override readonly message: string = "A value is invalid; `field` is its path";
}

/** The arguments do not match the definition's parameters; `field` is the path of a fault. */
export class InvalidPayload extends Invalid {
  static override readonly code: string = "invalid_payload";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The arguments do not match the definition's parameters; `field` is the path of a fault";
}

/** The payload or result exceeds the size or depth limit. */
export class PayloadTooLarge extends Invalid {
  static override readonly code: string = "payload_too_large";
  static override readonly sqlstate: string | null = "JF007";
  static override readonly message: string =
    "The payload or result exceeds the size or depth limit";
}

/** A payload, result or file requires an artifact store, and none is configured. */
export class NoArtifactStore extends PayloadTooLarge {
  static override readonly code: string = "no_artifact_store";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "A payload, result or file requires an artifact store, and none is configured";
}

/** A step's result cannot be stored: it is not valid JSON, or too large. */
export class InvalidResult extends Invalid {
  static override readonly code: string = "invalid_result";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "A step's result cannot be stored: it is not valid JSON, or too large";
}

/** Unknown field. */
export class UnknownField extends Invalid {
  static override readonly code: string = "unknown_field";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "Unknown field";
}

/** The URL has another origin, so the secrets in `missing` are required again. */
export class SecretsRequired extends Invalid {
  static override readonly code: string = "secrets_required";
  static override readonly sqlstate: string | null = "JF015";
  static override readonly message: string =
    "The URL has another origin, so the secrets in `missing` are required again";
}

/** The request body must be uncompressed application/json. */
export class WrongMediaType extends Invalid {
  static override readonly code: string = "unsupported_media_type";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The request body must be uncompressed application/json";
}

/** The request body is not valid JSON. */
export class BadBody extends Invalid {
  static override readonly code: string = "invalid_json";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The request body is not valid JSON";
}

/** An object in the request body has a duplicate member. */
export class DuplicateMember extends BadBody {
  static override readonly code: string = "duplicate_member";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "An object in the request body has a duplicate member";
}

/** A number in the request body has too many digits. */
export class NumberTooLong extends BadBody {
  static override readonly code: string = "number_too_long";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "A number in the request body has too many digits";
}

/** The request body contains the NUL character, which Postgres cannot store. */
export class NulCharacter extends BadBody {
  static override readonly code: string = "nul_character";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The request body contains the NUL character, which Postgres cannot store";
}

/** The request body is nested too deeply. */
export class TooDeep extends BadBody {
  static override readonly code: string = "too_deep";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The request body is nested too deeply";
}

/** The lease is lost: another worker has the job, or the job is finished. */
export class LeaseLost extends JobForgeError {
  static override readonly code: string = "lease_lost";
  static override readonly sqlstate: string | null = "JF003";
  static override readonly message: string =
    "The lease is lost: another worker has the job, or the job is finished";
}

/** Not found, or owned by another tenant. */
export class NotFound extends JobForgeError {
  static override readonly code: string = "not_found";
  static override readonly sqlstate: string | null = "JF004";
  static override readonly message: string = "Not found, or owned by another tenant";
}

/** No definition is registered under this key and version. */
export class UnknownDefinition extends NotFound {
  static override readonly code: string = "unknown_definition";
  static override readonly sqlstate: string | null = "JF009";
  static override readonly message: string =
    "No definition is registered under this key and version";
}

/** The tenant was deleted, or is being deleted; its ID cannot be used again. */
export class TenantErased extends NotFound {
  static override readonly code: string = "tenant_erased";
  static override readonly sqlstate: string | null = "JF014";
  static override readonly message: string =
    "The tenant was deleted, or is being deleted; its ID cannot be used again";
}

/** The artifact is missing, or its content has changed. */
export class ArtifactNotFound extends NotFound {
  static override readonly code: string = "artifact_not_found";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The artifact is missing, or its content has changed";
}

/** The current state does not allow this operation. */
export class Conflict extends JobForgeError {
  static override readonly code: string = "conflict";
  static override readonly sqlstate: string | null = "JF005";
  static override readonly message: string = "The current state does not allow this operation";
}

/** The definition is inactive and does not accept new jobs. */
export class DefinitionInactive extends Conflict {
  static override readonly code: string = "definition_inactive";
  static override readonly sqlstate: string | null = "JF010";
  static override readonly message: string =
    "The definition is inactive and does not accept new jobs";
}

/** A job with this idempotency key already exists. */
export class DuplicateKey extends Conflict {
  static override readonly code: string = "duplicate_key";
  static override readonly sqlstate: string | null = "JF011";
  static override readonly message: string = "A job with this idempotency key already exists";
}

/** The idempotency key was already used for a different request. */
export class IdempotencyKeyReused extends Conflict {
  static override readonly code: string = "idempotency_key_reused";
  static override readonly sqlstate: string | null = "JF013";
  static override readonly message: string =
    "The idempotency key was already used for a different request";
}

/** The handler completed its job in a transaction that it did not commit. */
export class NotCommitted extends Conflict {
  static override readonly code: string = "not_committed";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The handler completed its job in a transaction that it did not commit";
}

/** The role or tenant does not allow this operation. */
export class Denied extends JobForgeError {
  static override readonly code: string = "denied";
  static override readonly sqlstate: string | null = "JF006";
  static override readonly message: string = "The role or tenant does not allow this operation";
}

/** The role does not allow this operation. */
export class Forbidden extends Denied {
  static override readonly code: string = "forbidden";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The role does not allow this operation";
}

/** The key's scopes do not allow this operation. */
export class OutOfScope extends Denied {
  static override readonly code: string = "out_of_scope";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The key's scopes do not allow this operation";
}

/** The session cookie is accepted only from pages of this server. */
export class ForeignOrigin extends Denied {
  static override readonly code: string = "foreign_origin";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The session cookie is accepted only from pages of this server";
}

/** Missing or invalid credentials; send an API key or token as `Authorization: Bearer <key>`. */
export class Unauthenticated extends JobForgeError {
  static override readonly code: string = "unauthenticated";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "Missing or invalid credentials; send an API key or token as `Authorization: Bearer <key>`";
}

/** Too many requests; retry after the time in the Retry-After header. */
export class TooManyRequests extends JobForgeError {
  static override readonly code: string = "too_many_requests";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "Too many requests; retry after the time in the Retry-After header";
}

/** The key has reached its limit of open live streams. */
export class TooManyStreams extends TooManyRequests {
  static override readonly code: string = "too_many_streams";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The key has reached its limit of open live streams";
}

/** The tenant has reached its limit of pending jobs. */
export class QueueFull extends JobForgeError {
  static override readonly code: string = "tenant_queue_full";
  static override readonly sqlstate: string | null = "JF008";
  static override readonly message: string = "The tenant has reached its limit of pending jobs";
}

/** The function requires a READ COMMITTED transaction. */
export class WrongIsolation extends JobForgeError {
  static override readonly code: string = "wrong_isolation";
  static override readonly sqlstate: string | null = "JF012";
  static override readonly message: string = "The function requires a READ COMMITTED transaction";
}

/** The awaited job is dead or canceled; `detail` has its state and error. */
export class JobFailed extends JobForgeError {
  static override readonly code: string = "job_failed";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The awaited job is dead or canceled; `detail` has its state and error";
}

/** A gathered job is dead or canceled; `detail` has its state and error. */
export class ChildFailed extends JobFailed {
  static override readonly code: string = "child_failed";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "A gathered job is dead or canceled; `detail` has its state and error";
}

/** The awaited job did not finish in time. */
export class WaitTimeout extends JobForgeError {
  static override readonly code: string = "wait_timeout";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The awaited job did not finish in time";
}

/** The request could not be sent. */
export class EgressError extends JobForgeError {
  static override readonly code: string = "egress_failed";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The request could not be sent";
}

/** The address is not allowed. */
export class AddressNotAllowed extends EgressError {
  static override readonly code: string = "address_not_allowed";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The address is not allowed";
}

/** The host is unreachable. */
export class Unreachable extends EgressError {
  static override readonly code: string = "unreachable";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The host is unreachable";
}

/** The TLS connection failed, for example because the certificate is not valid for the host. */
export class TlsError extends EgressError {
  static override readonly code: string = "tls_error";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The TLS connection failed, for example because the certificate is not valid for the host";
}

/** The request exceeded its time limit. */
export class DeadlineExceeded extends EgressError {
  static override readonly code: string = "deadline_exceeded";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The request exceeded its time limit";
}

/** The response exceeds the size limit. */
export class ResponseTooLarge extends EgressError {
  static override readonly code: string = "response_too_large";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The response exceeds the size limit";
}

/** The request was redirected too many times. */
export class TooManyRedirects extends EgressError {
  static override readonly code: string = "too_many_redirects";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The request was redirected too many times";
}

/** The response is not valid HTTP. */
export class BadResponse extends EgressError {
  static override readonly code: string = "bad_response";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The response is not valid HTTP";
}

/** The response has an unexpected status. */
export class UnexpectedStatus extends EgressError {
  static override readonly code: string = "unexpected_status";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The response has an unexpected status";
}

/** The artifact store is unavailable. */
export class ArtifactUnavailable extends JobForgeError {
  static override readonly code: string = "artifact_unavailable";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The artifact store is unavailable";
}

/** A sealed secret cannot be opened: it was changed, moved, or sealed with another key. */
export class SealBroken extends JobForgeError {
  static override readonly code: string = "seal_broken";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "A sealed secret cannot be opened: it was changed, moved, or sealed with another key";
}

/** The awaited event did not arrive in time. */
export class EventTimeout extends JobForgeError {
  static override readonly code: string = "event_timeout";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The awaited event did not arrive in time";
}

/** Another transaction holds a lock; nothing was changed, so the call can be repeated. */
export class Contended extends JobForgeError {
  static override readonly code: string = "contended";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "Another transaction holds a lock; nothing was changed, so the call can be repeated";
}

/** The database is unreachable. */
export class Unavailable extends JobForgeError {
  static override readonly code: string = "unavailable";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The database is unreachable";
}

/** The schema could not be migrated. */
export class MigrationError extends JobForgeError {
  static override readonly code: string = "migration_error";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The schema could not be migrated";
}

/** The embedded Postgres could not be started or stopped. */
export class EmbeddedError extends JobForgeError {
  static override readonly code: string = "embedded_error";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The embedded Postgres could not be started or stopped";
}

/** A setting is missing or invalid. */
export class ConfigError extends JobForgeError {
  static override readonly code: string = "config_error";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "A setting is missing or invalid";
}

export const ERRORS: readonly (typeof JobForgeError)[] = [
  JobForgeError,
  TenantRequired,
  Invalid,
  InvalidPayload,
  PayloadTooLarge,
  NoArtifactStore,
  InvalidResult,
  UnknownField,
  SecretsRequired,
  WrongMediaType,
  BadBody,
  DuplicateMember,
  NumberTooLong,
  NulCharacter,
  TooDeep,
  LeaseLost,
  NotFound,
  UnknownDefinition,
  TenantErased,
  ArtifactNotFound,
  Conflict,
  DefinitionInactive,
  DuplicateKey,
  IdempotencyKeyReused,
  NotCommitted,
  Denied,
  Forbidden,
  OutOfScope,
  ForeignOrigin,
  Unauthenticated,
  TooManyRequests,
  TooManyStreams,
  QueueFull,
  WrongIsolation,
  JobFailed,
  ChildFailed,
  WaitTimeout,
  EgressError,
  AddressNotAllowed,
  Unreachable,
  TlsError,
  DeadlineExceeded,
  ResponseTooLarge,
  TooManyRedirects,
  BadResponse,
  UnexpectedStatus,
  ArtifactUnavailable,
  SealBroken,
  EventTimeout,
  Contended,
  Unavailable,
  MigrationError,
  EmbeddedError,
  ConfigError,
];

export const DENIED_SQLSTATES: ReadonlySet<string> = new Set(["42501"]);

export const CONTENDED_SQLSTATES: ReadonlySet<string> = new Set([
  "40001",
  "40P01",
  "55P03",
  "57014",
]);

export const UNAVAILABLE_SQLSTATES: ReadonlySet<string> = new Set([
  "53300",
  "57P01",
  "57P02",
  "57P03",
]);
