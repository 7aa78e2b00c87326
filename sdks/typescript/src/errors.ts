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

/** JobForge could not do what was asked. */
export class JobForgeError extends Error {
  static readonly code: string = "error";
  static readonly sqlstate: string | null = null;
  static readonly message: string = "JobForge could not do what was asked.";
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

/** No tenant is set, and none was named. */
export class TenantRequired extends JobForgeError {
  static override readonly code: string = "tenant_required";
  static override readonly sqlstate: string | null = "JF001";
  static override readonly message: string = "No tenant is set, and none was named.";
}

/** A value is not allowed here; `field` names it. */
export class Invalid extends JobForgeError {
  static override readonly code: string = "invalid";
  static override readonly sqlstate: string | null = "JF002";
  static override readonly message: string = "A value is not allowed here; `field` names it.";
}

/** The arguments do not fit the definition's parameters; `field` is the path to the first. */
export class InvalidPayload extends Invalid {
  static override readonly code: string = "invalid_payload";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The arguments do not fit the definition's parameters; `field` is the path to the first.";
}

/** The payload or result is larger or deeper than the limit. */
export class PayloadTooLarge extends Invalid {
  static override readonly code: string = "payload_too_large";
  static override readonly sqlstate: string | null = "JF007";
  static override readonly message: string =
    "The payload or result is larger or deeper than the limit.";
}

/** A payload, result or file needs an artifact store, and none is configured. */
export class NoArtifactStore extends PayloadTooLarge {
  static override readonly code: string = "no_artifact_store";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "A payload, result or file needs an artifact store, and none is configured.";
}

/** What a step returned cannot be kept: it is no JSON, or too much of it. */
export class InvalidResult extends Invalid {
  static override readonly code: string = "invalid_result";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "What a step returned cannot be kept: it is no JSON, or too much of it.";
}

/** There is no such field. */
export class UnknownField extends Invalid {
  static override readonly code: string = "unknown_field";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "There is no such field.";
}

/** The URL has another origin, so the secrets are required again; `missing` names them. */
export class SecretsRequired extends Invalid {
  static override readonly code: string = "secrets_required";
  static override readonly sqlstate: string | null = "JF015";
  static override readonly message: string =
    "The URL has another origin, so the secrets are required again; `missing` names them.";
}

/** Bodies are application/json, and not compressed. */
export class WrongMediaType extends Invalid {
  static override readonly code: string = "unsupported_media_type";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "Bodies are application/json, and not compressed.";
}

/** The body is not JSON. */
export class BadBody extends Invalid {
  static override readonly code: string = "invalid_json";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The body is not JSON.";
}

/** An object of the body has the same member twice. */
export class DuplicateMember extends BadBody {
  static override readonly code: string = "duplicate_member";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "An object of the body has the same member twice.";
}

/** NaN and Infinity are no JSON. */
export class NumberNotFinite extends BadBody {
  static override readonly code: string = "number_not_finite";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "NaN and Infinity are no JSON.";
}

/** The body holds a number with too many digits. */
export class NumberTooLong extends BadBody {
  static override readonly code: string = "number_too_long";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The body holds a number with too many digits.";
}

/** The body holds the character NUL, which Postgres cannot keep. */
export class NulCharacter extends BadBody {
  static override readonly code: string = "nul_character";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The body holds the character NUL, which Postgres cannot keep.";
}

/** The body holds half of a surrogate pair, which is no character. */
export class LoneSurrogate extends BadBody {
  static override readonly code: string = "lone_surrogate";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The body holds half of a surrogate pair, which is no character.";
}

/** The body is nested too deeply. */
export class TooDeep extends BadBody {
  static override readonly code: string = "too_deep";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The body is nested too deeply.";
}

/** The lease is no longer held: the job belongs to another worker or has ended. */
export class LeaseLost extends JobForgeError {
  static override readonly code: string = "lease_lost";
  static override readonly sqlstate: string | null = "JF003";
  static override readonly message: string =
    "The lease is no longer held: the job belongs to another worker or has ended.";
}

/** There is no such thing, or it belongs to another tenant. */
export class NotFound extends JobForgeError {
  static override readonly code: string = "not_found";
  static override readonly sqlstate: string | null = "JF004";
  static override readonly message: string =
    "There is no such thing, or it belongs to another tenant.";
}

/** No definition is registered under this key and version. */
export class UnknownDefinition extends NotFound {
  static override readonly code: string = "unknown_definition";
  static override readonly sqlstate: string | null = "JF009";
  static override readonly message: string =
    "No definition is registered under this key and version.";
}

/** The tenant was deleted, or is being deleted; its id cannot be used again. */
export class TenantErased extends NotFound {
  static override readonly code: string = "tenant_erased";
  static override readonly sqlstate: string | null = "JF014";
  static override readonly message: string =
    "The tenant was deleted, or is being deleted; its id cannot be used again.";
}

/** The artifact is not there, or not what was put there. */
export class ArtifactNotFound extends NotFound {
  static override readonly code: string = "artifact_not_found";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The artifact is not there, or not what was put there.";
}

/** The job's state does not allow this. */
export class Conflict extends JobForgeError {
  static override readonly code: string = "conflict";
  static override readonly sqlstate: string | null = "JF005";
  static override readonly message: string = "The job's state does not allow this.";
}

/** The definition is inactive: new jobs are refused. */
export class DefinitionInactive extends Conflict {
  static override readonly code: string = "definition_inactive";
  static override readonly sqlstate: string | null = "JF010";
  static override readonly message: string = "The definition is inactive: new jobs are refused.";
}

/** A job with this idempotency key exists already. */
export class DuplicateKey extends Conflict {
  static override readonly code: string = "duplicate_key";
  static override readonly sqlstate: string | null = "JF011";
  static override readonly message: string = "A job with this idempotency key exists already.";
}

/** The request's idempotency key was used for another request. */
export class IdempotencyKeyReused extends Conflict {
  static override readonly code: string = "idempotency_key_reused";
  static override readonly sqlstate: string | null = "JF013";
  static override readonly message: string =
    "The request's idempotency key was used for another request.";
}

/** The handler completed its job in a transaction that it did not commit. */
export class NotCommitted extends Conflict {
  static override readonly code: string = "not_committed";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The handler completed its job in a transaction that it did not commit.";
}

/** This role or tenant may not do that. */
export class Denied extends JobForgeError {
  static override readonly code: string = "denied";
  static override readonly sqlstate: string | null = "JF006";
  static override readonly message: string = "This role or tenant may not do that.";
}

/** This role may not do that. */
export class Forbidden extends Denied {
  static override readonly code: string = "forbidden";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "This role may not do that.";
}

/** The scopes of this key do not cover that. */
export class OutOfScope extends Denied {
  static override readonly code: string = "out_of_scope";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The scopes of this key do not cover that.";
}

/** A session acts only for pages of this server itself. */
export class ForeignOrigin extends Denied {
  static override readonly code: string = "foreign_origin";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "A session acts only for pages of this server itself.";
}

/** Give a valid API key or token as a bearer in the header Authorization. */
export class Unauthenticated extends JobForgeError {
  static override readonly code: string = "unauthenticated";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "Give a valid API key or token as a bearer in the header Authorization.";
}

/** Too many requests; try again after the seconds that Retry-After tells. */
export class TooManyRequests extends JobForgeError {
  static override readonly code: string = "too_many_requests";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "Too many requests; try again after the seconds that Retry-After tells.";
}

/** The key has as many live streams open as one key may have; close one. */
export class TooManyStreams extends TooManyRequests {
  static override readonly code: string = "too_many_streams";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The key has as many live streams open as one key may have; close one.";
}

/** The tenant's limit of pending jobs is reached. */
export class QueueFull extends JobForgeError {
  static override readonly code: string = "tenant_queue_full";
  static override readonly sqlstate: string | null = "JF008";
  static override readonly message: string = "The tenant's limit of pending jobs is reached.";
}

/** The function works in READ COMMITTED transactions only. */
export class WrongIsolation extends JobForgeError {
  static override readonly code: string = "wrong_isolation";
  static override readonly sqlstate: string | null = "JF012";
  static override readonly message: string =
    "The function works in READ COMMITTED transactions only.";
}

/** The job that was waited for died or was canceled; `detail` has its state and error. */
export class JobFailed extends JobForgeError {
  static override readonly code: string = "job_failed";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The job that was waited for died or was canceled; `detail` has its state and error.";
}

/** A job that was gathered died or was canceled; `detail` has its state and error. */
export class ChildFailed extends JobFailed {
  static override readonly code: string = "child_failed";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "A job that was gathered died or was canceled; `detail` has its state and error.";
}

/** The job that was waited for has not ended in time. */
export class WaitTimeout extends JobForgeError {
  static override readonly code: string = "wait_timeout";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The job that was waited for has not ended in time.";
}

/** The request could not be made. */
export class EgressError extends JobForgeError {
  static override readonly code: string = "egress_failed";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The request could not be made.";
}

/** The address is not allowed. */
export class AddressNotAllowed extends EgressError {
  static override readonly code: string = "address_not_allowed";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The address is not allowed.";
}

/** The host cannot be reached. */
export class Unreachable extends EgressError {
  static override readonly code: string = "unreachable";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The host cannot be reached.";
}

/** No secure connection could be made: the certificate is not valid for this host. */
export class TlsError extends EgressError {
  static override readonly code: string = "tls_error";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "No secure connection could be made: the certificate is not valid for this host.";
}

/** The request took longer than it may. */
export class DeadlineExceeded extends EgressError {
  static override readonly code: string = "deadline_exceeded";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The request took longer than it may.";
}

/** The response is larger than it may be. */
export class ResponseTooLarge extends EgressError {
  static override readonly code: string = "response_too_large";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The response is larger than it may be.";
}

/** The response redirects more often than is followed. */
export class TooManyRedirects extends EgressError {
  static override readonly code: string = "too_many_redirects";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The response redirects more often than is followed.";
}

/** The response is not HTTP as it should be. */
export class BadResponse extends EgressError {
  static override readonly code: string = "bad_response";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The response is not HTTP as it should be.";
}

/** The response has a status that was not expected. */
export class UnexpectedStatus extends EgressError {
  static override readonly code: string = "unexpected_status";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The response has a status that was not expected.";
}

/** The artifact store cannot be used. */
export class ArtifactUnavailable extends JobForgeError {
  static override readonly code: string = "artifact_unavailable";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The artifact store cannot be used.";
}

/** A sealed secret cannot be opened: it was changed, or belongs elsewhere. */
export class SealBroken extends JobForgeError {
  static override readonly code: string = "seal_broken";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "A sealed secret cannot be opened: it was changed, or belongs elsewhere.";
}

/** The event that was waited for has not come in time. */
export class EventTimeout extends JobForgeError {
  static override readonly code: string = "event_timeout";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The event that was waited for has not come in time.";
}

/** Another transaction was in the way; nothing was done, and the same call may succeed. */
export class Contended extends JobForgeError {
  static override readonly code: string = "contended";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "Another transaction was in the way; nothing was done, and the same call may succeed.";
}

/** The database cannot be reached. */
export class Unavailable extends JobForgeError {
  static override readonly code: string = "unavailable";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The database cannot be reached.";
}

/** The schema could not be brought up to date. */
export class MigrationError extends JobForgeError {
  static override readonly code: string = "migration_error";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "The schema could not be brought up to date.";
}

/** The embedded Postgres could not be started or stopped. */
export class EmbeddedError extends JobForgeError {
  static override readonly code: string = "embedded_error";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string =
    "The embedded Postgres could not be started or stopped.";
}

/** A setting is missing or wrong. */
export class ConfigError extends JobForgeError {
  static override readonly code: string = "config_error";
  static override readonly sqlstate: string | null = null;
  static override readonly message: string = "A setting is missing or wrong.";
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
  NumberNotFinite,
  NumberTooLong,
  NulCharacter,
  LoneSurrogate,
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
