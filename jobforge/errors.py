"""Every error that JobForge raises. db/sqlstates.py maps SQLSTATEs to these classes.

JobForgeError
├── TenantRequired      JF001  tenant_required
├── Invalid             JF002  invalid
│   ├── InvalidPayload  invalid_payload the arguments do not fit the definition's parameters
│   ├── PayloadTooLarge JF007  payload_too_large
│   │   └── NoArtifactStore no_artifact_store  too large for a row, and no store is configured
│   ├── InvalidResult   invalid_result  the result of a step cannot be stored
│   ├── UnknownField    unknown_field
│   ├── SecretsRequired JF015  secrets_required  a URL with another origin needs the secrets again
│   ├── WrongMediaType  unsupported_media_type
│   └── BadBody         invalid_json    the request body, with one code for each fault:
│       ├── DuplicateMember  duplicate_member
│       ├── NumberNotFinite  number_not_finite
│       ├── NumberTooLong    number_too_long
│       ├── NulCharacter     nul_character
│       ├── LoneSurrogate    lone_surrogate
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
├── SealBroken          seal_broken     a sealed secret was changed, moved, or sealed by another key
├── EventTimeout        event_timeout   an event that a job waited for did not arrive in time
├── Contended           contended       another transaction holds a lock; try again
├── Unavailable         unavailable     the database cannot be reached
├── MigrationError      migration_error
├── EmbeddedError       embedded_error
└── ConfigError         config_error

The first line of a class's docstring is its default message. `code` is stable: programs compare it.
Messages are for people and may change.
"""

from typing import Any, ClassVar

# A value that JSON can represent.
Json = Any


class JobForgeError(Exception):
    """JobForge could not do what was asked."""

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
        self.message = message or _first_line(type(self))
        self.field = field
        self.detail = detail or {}
        self.hint = hint
        super().__init__(self.message)


class TenantRequired(JobForgeError):
    """No tenant is set, and none was named."""

    code = "tenant_required"
    sqlstate = "JF001"


class Invalid(JobForgeError):
    """A value is not allowed here; `field` names it."""

    code = "invalid"
    sqlstate: ClassVar[str | None] = "JF002"


class InvalidPayload(Invalid):
    """The arguments do not fit the definition's parameters; `field` is the path to the first."""

    code = "invalid_payload"
    sqlstate = None


class PayloadTooLarge(Invalid):
    """The payload or result is larger or deeper than the limit."""

    code = "payload_too_large"
    sqlstate: ClassVar[str | None] = "JF007"


class NoArtifactStore(PayloadTooLarge):
    """A payload, result or file needs an artifact store, and none is configured."""

    code = "no_artifact_store"
    sqlstate = None


class InvalidResult(Invalid):
    """What a step returned cannot be kept: it is no JSON, or too much of it."""

    code = "invalid_result"
    sqlstate = None


class UnknownField(Invalid):
    """There is no such field."""

    code = "unknown_field"
    sqlstate = None


class SecretsRequired(Invalid):
    """The URL has another origin, so the secrets are required again; `missing` names them."""

    code = "secrets_required"
    sqlstate = "JF015"


class WrongMediaType(Invalid):
    """Bodies are application/json, and not compressed."""

    code = "unsupported_media_type"
    sqlstate = None


class BadBody(Invalid):
    """The body is not JSON."""

    code = "invalid_json"
    sqlstate = None


class DuplicateMember(BadBody):
    """An object of the body has the same member twice."""

    code = "duplicate_member"


class NumberNotFinite(BadBody):
    """NaN and Infinity are no JSON."""

    code = "number_not_finite"


class NumberTooLong(BadBody):
    """The body holds a number with too many digits."""

    code = "number_too_long"


class NulCharacter(BadBody):
    """The body holds the character NUL, which Postgres cannot keep."""

    code = "nul_character"


class LoneSurrogate(BadBody):
    """The body holds half of a surrogate pair, which is no character."""

    code = "lone_surrogate"


class TooDeep(BadBody):
    """The body is nested too deeply."""

    code = "too_deep"


class LeaseLost(JobForgeError):
    """The lease is no longer held: the job belongs to another worker or has ended."""

    code = "lease_lost"
    sqlstate = "JF003"


class NotFound(JobForgeError):
    """There is no such thing, or it belongs to another tenant."""

    code = "not_found"
    sqlstate: ClassVar[str | None] = "JF004"


class UnknownDefinition(NotFound):
    """No definition is registered under this key and version."""

    code = "unknown_definition"
    sqlstate = "JF009"


class TenantErased(NotFound):
    """The tenant was deleted, or is being deleted; its id cannot be used again."""

    code = "tenant_erased"
    sqlstate = "JF014"


class ArtifactNotFound(NotFound):
    """The artifact is not there, or not what was put there."""

    code = "artifact_not_found"
    sqlstate = None


class Conflict(JobForgeError):
    """The job's state does not allow this."""

    code = "conflict"
    sqlstate: ClassVar[str | None] = "JF005"


class DefinitionInactive(Conflict):
    """The definition is inactive: new jobs are refused."""

    code = "definition_inactive"
    sqlstate = "JF010"


class DuplicateKey(Conflict):
    """A job with this idempotency key exists already."""

    code = "duplicate_key"
    sqlstate = "JF011"


class IdempotencyKeyReused(Conflict):
    """The request's idempotency key was used for another request."""

    code = "idempotency_key_reused"
    sqlstate = "JF013"


class NotCommitted(Conflict):
    """The handler completed its job in a transaction that it did not commit."""

    code = "not_committed"
    sqlstate = None


class Denied(JobForgeError):
    """This role or tenant may not do that."""

    code = "denied"
    sqlstate: ClassVar[str | None] = "JF006"


class Forbidden(Denied):
    """This role may not do that."""

    code = "forbidden"
    sqlstate = None


class OutOfScope(Denied):
    """The scopes of this key do not cover that."""

    code = "out_of_scope"
    sqlstate = None


class ForeignOrigin(Denied):
    """A session acts only for pages of this server itself."""

    code = "foreign_origin"
    sqlstate = None


class Unauthenticated(JobForgeError):
    """Give a valid API key or token as a bearer in the header Authorization."""

    code = "unauthenticated"


class TooManyRequests(JobForgeError):
    """Too many requests; try again after the seconds that Retry-After tells."""

    code = "too_many_requests"


class TooManyStreams(TooManyRequests):
    """The key has as many live streams open as one key may have; close one."""

    code = "too_many_streams"


class QueueFull(JobForgeError):
    """The tenant's limit of pending jobs is reached."""

    code = "tenant_queue_full"
    sqlstate = "JF008"


class WrongIsolation(JobForgeError):
    """The function works in READ COMMITTED transactions only."""

    code = "wrong_isolation"
    sqlstate = "JF012"


class JobFailed(JobForgeError):
    """The job that was waited for died or was canceled; `detail` has its state and error."""

    code = "job_failed"


class ChildFailed(JobFailed):
    """A job that was gathered died or was canceled; `detail` has its state and error."""

    code = "child_failed"


class WaitTimeout(JobForgeError):
    """The job that was waited for has not ended in time."""

    code = "wait_timeout"


class EgressError(JobForgeError):
    """The request could not be made."""

    code = "egress_failed"
    is_final: bool = False  # retrying the same request cannot succeed
    retry_in_s: float | None = None


class AddressNotAllowed(EgressError):
    """The address is not allowed."""

    code = "address_not_allowed"
    is_final = True


class Unreachable(EgressError):
    """The host cannot be reached."""

    code = "unreachable"


class TlsError(EgressError):
    """No secure connection could be made: the certificate is not valid for this host."""

    code = "tls_error"


class DeadlineExceeded(EgressError):
    """The request took longer than it may."""

    code = "deadline_exceeded"


class ResponseTooLarge(EgressError):
    """The response is larger than it may be."""

    code = "response_too_large"
    is_final = True


class TooManyRedirects(EgressError):
    """The response redirects more often than is followed."""

    code = "too_many_redirects"
    is_final = True


class BadResponse(EgressError):
    """The response is not HTTP as it should be."""

    code = "bad_response"


class UnexpectedStatus(EgressError):
    """The response has a status that was not expected."""

    code = "unexpected_status"


class ArtifactUnavailable(JobForgeError):
    """The artifact store cannot be used."""

    code = "artifact_unavailable"


class SealBroken(JobForgeError):
    """A sealed secret cannot be opened: it was changed, or belongs elsewhere."""

    code = "seal_broken"


class EventTimeout(JobForgeError):
    """The event that was waited for has not come in time."""

    code = "event_timeout"


class Contended(JobForgeError):
    """Another transaction was in the way; nothing was done, and the same call may succeed."""

    code = "contended"


class Unavailable(JobForgeError):
    """The database cannot be reached."""

    code = "unavailable"


class MigrationError(JobForgeError):
    """The schema could not be brought up to date."""

    code = "migration_error"


class EmbeddedError(JobForgeError):
    """The embedded Postgres could not be started or stopped."""

    code = "embedded_error"


class ConfigError(JobForgeError):
    """A setting is missing or wrong."""

    code = "config_error"


def _first_line(error: type[JobForgeError]) -> str:
    return (error.__doc__ or error.__name__).splitlines()[0]


def by_code(code: str) -> type[JobForgeError] | None:
    """Return the error class with this code, or None for an unknown code."""
    return _BY_CODE.get(code)


def error_classes(root: type[JobForgeError]) -> list[type[JobForgeError]]:
    """Return this class and all its subclasses, recursively."""
    return [root, *(leaf for child in root.__subclasses__() for leaf in error_classes(child))]


_BY_CODE = {error.code: error for error in error_classes(JobForgeError)}
