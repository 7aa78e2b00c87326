"""Every error that JobForge raises. db/sqlstates.py maps SQLSTATEs to these classes.

JobForgeError
├── TenantRequired      JF001  tenant_required
├── Invalid             JF002  invalid
│   ├── InvalidPayload  invalid_payload the arguments do not match the definition's parameters
│   ├── PayloadTooLarge JF007  payload_too_large
│   │   └── NoArtifactStore no_artifact_store  too large for a row, and no store is configured
│   ├── InvalidResult   invalid_result  the result of a step cannot be stored
│   ├── UnknownField    unknown_field
│   ├── SecretsRequired JF015  secrets_required  a URL with another origin needs the secrets again
│   ├── WrongMediaType  unsupported_media_type
│   └── BadBody         invalid_json    the request body; valid JSON with another fault:
│       ├── DuplicateMember  duplicate_member
│       ├── NumberTooLong    number_too_long
│       ├── NulCharacter     nul_character
│       └── TooDeep          too_deep
├── LeaseLost           JF003  lease_lost
├── NotFound            JF004  not_found
│   ├── UnknownDefinition JF009  unknown_definition
│   ├── TenantErased    JF014  tenant_erased   the tenant was deleted, or is being deleted
│   └── ArtifactNotFound artifact_not_found  the file of a payload or result is missing
├── Conflict            JF005  conflict
│   ├── DefinitionInactive JF010  definition_inactive
│   ├── DuplicateKey    JF011  duplicate_key
│   ├── IdempotencyKeyReused JF013  idempotency_key_reused
│   └── NotCommitted    not_committed   the handler completed its job but did not commit
├── Denied              JF006  denied
│   ├── Forbidden       forbidden       the role of the key or token does not allow this
│   ├── OutOfScope      out_of_scope    the scopes of the key or token do not allow this
│   └── ForeignOrigin   foreign_origin  a page of another site sent the session cookie
├── Unauthenticated     unauthenticated
├── TooManyRequests     too_many_requests
│   └── TooManyStreams  too_many_streams
├── QueueFull           JF008  tenant_queue_full
├── WrongIsolation      JF012  wrong_isolation
├── JobFailed           job_failed      an awaited job is dead or canceled
│   └── ChildFailed     child_failed    a job passed to gather is dead or canceled
├── WaitTimeout         wait_timeout    an awaited job did not finish in time
├── EgressError         egress_failed   an outbound request could not be sent
│   ├── AddressNotAllowed  address_not_allowed
│   ├── Unreachable        unreachable
│   ├── TlsError           tls_error
│   ├── DeadlineExceeded   deadline_exceeded
│   ├── ResponseTooLarge   response_too_large
│   ├── TooManyRedirects   too_many_redirects
│   ├── BadResponse        bad_response
│   └── UnexpectedStatus   unexpected_status
├── ArtifactUnavailable artifact_unavailable  the artifact store cannot be used
├── SealBroken          seal_broken     a sealed secret was changed or moved, or has another key
├── EventTimeout        event_timeout   an event that a job waited for did not arrive in time
├── Contended           contended       another transaction holds a lock; try again
├── Unavailable         unavailable     the database cannot be reached
├── MigrationError      migration_error
├── EmbeddedError       embedded_error
└── ConfigError         config_error

The first line of a class's docstring, without its period, is the default message. `code` is
stable: programs compare it. Messages are for people and may change.
"""

from typing import Any, ClassVar

# A value that JSON can represent.
Json = Any


class JobForgeError(Exception):
    """The operation failed."""

    code: ClassVar[str] = "error"
    sqlstate: ClassVar[str | None] = None

    def __init__(
        self,
        message: str | None = None,
        *,
        field: str | None = None,
        detail: dict[str, Json] | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = message or _default_message(type(self))
        self.field = field
        self.detail = detail or {}
        self.hint = hint
        super().__init__(self.message)


class TenantRequired(JobForgeError):
    """A tenant is required."""

    code = "tenant_required"
    sqlstate = "JF001"


class Invalid(JobForgeError):
    """A value is invalid; `field` is its path."""

    code = "invalid"
    sqlstate: ClassVar[str | None] = "JF002"


class InvalidPayload(Invalid):
    """The arguments do not match the definition's parameters; `field` is the path of a fault."""

    code = "invalid_payload"
    sqlstate = None


class PayloadTooLarge(Invalid):
    """The payload or result exceeds the size or depth limit."""

    code = "payload_too_large"
    sqlstate: ClassVar[str | None] = "JF007"


class NoArtifactStore(PayloadTooLarge):
    """A payload, result or file requires an artifact store, and none is configured."""

    code = "no_artifact_store"
    sqlstate = None


class InvalidResult(Invalid):
    """A step's result cannot be stored: it is not valid JSON, or too large."""

    code = "invalid_result"
    sqlstate = None


class UnknownField(Invalid):
    """Unknown field."""

    code = "unknown_field"
    sqlstate = None


class SecretsRequired(Invalid):
    """The URL has another origin, so the secrets in `missing` are required again."""

    code = "secrets_required"
    sqlstate = "JF015"


class WrongMediaType(Invalid):
    """The request body must be uncompressed application/json."""

    code = "unsupported_media_type"
    sqlstate = None


class BadBody(Invalid):
    """The request body is not valid JSON."""

    code = "invalid_json"
    sqlstate = None


class DuplicateMember(BadBody):
    """An object in the request body has a duplicate member."""

    code = "duplicate_member"


class NumberTooLong(BadBody):
    """A number in the request body has too many digits."""

    code = "number_too_long"


class NulCharacter(BadBody):
    """The request body contains the NUL character, which Postgres cannot store."""

    code = "nul_character"


class TooDeep(BadBody):
    """The request body is nested too deeply."""

    code = "too_deep"


class LeaseLost(JobForgeError):
    """The lease is lost: another worker has the job, or the job is finished."""

    code = "lease_lost"
    sqlstate = "JF003"


class NotFound(JobForgeError):
    """Not found, or owned by another tenant."""

    code = "not_found"
    sqlstate: ClassVar[str | None] = "JF004"


class UnknownDefinition(NotFound):
    """No definition is registered under this key and version."""

    code = "unknown_definition"
    sqlstate = "JF009"


class TenantErased(NotFound):
    """The tenant was deleted, or is being deleted; its ID cannot be used again."""

    code = "tenant_erased"
    sqlstate = "JF014"


class ArtifactNotFound(NotFound):
    """The artifact is missing, or its content has changed."""

    code = "artifact_not_found"
    sqlstate = None


class Conflict(JobForgeError):
    """The current state does not allow this operation."""

    code = "conflict"
    sqlstate: ClassVar[str | None] = "JF005"


class DefinitionInactive(Conflict):
    """The definition is inactive and does not accept new jobs."""

    code = "definition_inactive"
    sqlstate = "JF010"


class DuplicateKey(Conflict):
    """A job with this idempotency key already exists."""

    code = "duplicate_key"
    sqlstate = "JF011"


class IdempotencyKeyReused(Conflict):
    """The idempotency key was already used for a different request."""

    code = "idempotency_key_reused"
    sqlstate = "JF013"


class NotCommitted(Conflict):
    """The handler completed its job in a transaction that it did not commit."""

    code = "not_committed"
    sqlstate = None


class Denied(JobForgeError):
    """The role or tenant does not allow this operation."""

    code = "denied"
    sqlstate: ClassVar[str | None] = "JF006"


class Forbidden(Denied):
    """The role does not allow this operation."""

    code = "forbidden"
    sqlstate = None


class OutOfScope(Denied):
    """The key's scopes do not allow this operation."""

    code = "out_of_scope"
    sqlstate = None


class ForeignOrigin(Denied):
    """The session cookie is accepted only from pages of this server."""

    code = "foreign_origin"
    sqlstate = None


class Unauthenticated(JobForgeError):
    """Missing or invalid credentials; send an API key or token as `Authorization: Bearer <key>`."""

    code = "unauthenticated"


class TooManyRequests(JobForgeError):
    """Too many requests; retry after the time in the Retry-After header."""

    code = "too_many_requests"


class TooManyStreams(TooManyRequests):
    """The key has reached its limit of open live streams."""

    code = "too_many_streams"


class QueueFull(JobForgeError):
    """The tenant has reached its limit of pending jobs."""

    code = "tenant_queue_full"
    sqlstate = "JF008"


class WrongIsolation(JobForgeError):
    """The function requires a READ COMMITTED transaction."""

    code = "wrong_isolation"
    sqlstate = "JF012"


class JobFailed(JobForgeError):
    """The awaited job is dead or canceled; `detail` has its state and error."""

    code = "job_failed"


class ChildFailed(JobFailed):
    """A gathered job is dead or canceled; `detail` has its state and error."""

    code = "child_failed"


class WaitTimeout(JobForgeError):
    """The awaited job did not finish in time."""

    code = "wait_timeout"


class EgressError(JobForgeError):
    """The request could not be sent."""

    code = "egress_failed"
    is_final: bool = False  # retrying the same request cannot succeed
    retry_in_s: float | None = None


class AddressNotAllowed(EgressError):
    """The address is not allowed."""

    code = "address_not_allowed"
    is_final = True


class Unreachable(EgressError):
    """The host is unreachable."""

    code = "unreachable"


class TlsError(EgressError):
    """The TLS connection failed, for example because the certificate is not valid for the host."""

    code = "tls_error"


class DeadlineExceeded(EgressError):
    """The request exceeded its time limit."""

    code = "deadline_exceeded"


class ResponseTooLarge(EgressError):
    """The response exceeds the size limit."""

    code = "response_too_large"
    is_final = True


class TooManyRedirects(EgressError):
    """The request was redirected too many times."""

    code = "too_many_redirects"
    is_final = True


class BadResponse(EgressError):
    """The response is not valid HTTP."""

    code = "bad_response"


class UnexpectedStatus(EgressError):
    """The response has an unexpected status."""

    code = "unexpected_status"


class ArtifactUnavailable(JobForgeError):
    """The artifact store is unavailable."""

    code = "artifact_unavailable"


class SealBroken(JobForgeError):
    """A sealed secret cannot be opened: it was changed, moved, or sealed with another key."""

    code = "seal_broken"


class EventTimeout(JobForgeError):
    """The awaited event did not arrive in time."""

    code = "event_timeout"


class Contended(JobForgeError):
    """Another transaction holds a lock; nothing was changed, so the call can be repeated."""

    code = "contended"


class Unavailable(JobForgeError):
    """The database is unreachable."""

    code = "unavailable"


class MigrationError(JobForgeError):
    """The schema could not be migrated."""

    code = "migration_error"


class EmbeddedError(JobForgeError):
    """The embedded Postgres could not be started or stopped."""

    code = "embedded_error"


class ConfigError(JobForgeError):
    """A setting is missing or invalid."""

    code = "config_error"


def _default_message(error: type[JobForgeError]) -> str:
    """Return the message of an error that was raised without one."""
    return (error.__doc__ or error.__name__).splitlines()[0].removesuffix(".")


def by_code(code: str) -> type[JobForgeError] | None:
    """Return the error class with this code, or None for an unknown code."""
    return _BY_CODE.get(code)


def error_classes(root: type[JobForgeError]) -> list[type[JobForgeError]]:
    """Return this class and all its subclasses, recursively."""
    return [root, *(leaf for child in root.__subclasses__() for leaf in error_classes(child))]


_BY_CODE = {error.code: error for error in error_classes(JobForgeError)}
