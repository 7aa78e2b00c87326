"""Every error that JobForge raises. db/sqlstates.py maps SQLSTATEs to these classes.

JobForgeError
├── TenantRequired
├── Invalid
│   ├── InvalidPayload
│   ├── PayloadTooLarge
│   │   └── NoArtifactStore
│   ├── InvalidResult
│   ├── UnknownField
│   ├── SecretsRequired
│   ├── WrongMediaType
│   └── BadBody
│       ├── DuplicateMember
│       ├── NumberTooLong
│       ├── NulCharacter
│       └── TooDeep
├── LeaseLost
├── NotFound
│   ├── UnknownDefinition
│   ├── TenantErased
│   └── ArtifactNotFound
├── Conflict
│   ├── DefinitionInactive
│   ├── DuplicateKey
│   ├── IdempotencyKeyReused
│   └── NotCommitted
├── Denied
│   ├── Forbidden
│   ├── OutOfScope
│   └── ForeignOrigin
├── Unauthenticated
├── TooManyRequests
│   └── TooManyStreams
├── QueueFull
├── WrongIsolation
├── JobFailed
│   └── ChildFailed
├── WaitTimeout
├── EgressError
│   ├── AddressNotAllowed
│   ├── Unreachable
│   ├── TlsError
│   ├── DeadlineExceeded
│   ├── ResponseTooLarge
│   ├── TooManyRedirects
│   ├── BadResponse
│   └── UnexpectedStatus
├── ArtifactUnavailable
├── SealBroken
├── EventTimeout
├── Contended
├── Unavailable
├── MigrationError
├── EmbeddedError
└── ConfigError

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

    def __init_subclass__(cls, *, code: str | None = None, sqlstate: str | None = None) -> None:
        cls.code = code or cls.code
        cls.sqlstate = sqlstate

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


class TenantRequired(JobForgeError, code="tenant_required", sqlstate="JF001"):
    """A tenant is required."""


class Invalid(JobForgeError, code="invalid", sqlstate="JF002"):
    """A value is invalid; `field` is its path."""


class InvalidPayload(Invalid, code="invalid_payload"):
    """The arguments do not match the definition's parameters; `field` is the path of a fault."""


class PayloadTooLarge(Invalid, code="payload_too_large", sqlstate="JF007"):
    """The payload or result exceeds the size or depth limit."""


class NoArtifactStore(PayloadTooLarge, code="no_artifact_store"):
    """A payload, result or file requires an artifact store, and none is configured."""


class InvalidResult(Invalid, code="invalid_result"):
    """A step's result cannot be stored: it is not valid JSON, or too large."""


class UnknownField(Invalid, code="unknown_field"):
    """Unknown field."""


class SecretsRequired(Invalid, code="secrets_required", sqlstate="JF015"):
    """The URL has another origin, so the secrets in `missing` are required again."""


class WrongMediaType(Invalid, code="unsupported_media_type"):
    """The request body must be uncompressed application/json."""


class BadBody(Invalid, code="invalid_json"):
    """The request body is not valid JSON."""


class DuplicateMember(BadBody, code="duplicate_member"):
    """An object in the request body has a duplicate member."""


class NumberTooLong(BadBody, code="number_too_long"):
    """A number in the request body has too many digits."""


class NulCharacter(BadBody, code="nul_character"):
    """The request body contains the NUL character, which Postgres cannot store."""


class TooDeep(BadBody, code="too_deep"):
    """The request body is nested too deeply."""


class LeaseLost(JobForgeError, code="lease_lost", sqlstate="JF003"):
    """The lease is lost: another worker has the job, or the job is finished."""


class NotFound(JobForgeError, code="not_found", sqlstate="JF004"):
    """Not found, or owned by another tenant."""


class UnknownDefinition(NotFound, code="unknown_definition", sqlstate="JF009"):
    """No definition is registered under this key and version."""


class TenantErased(NotFound, code="tenant_erased", sqlstate="JF014"):
    """The tenant was deleted, or is being deleted; its ID cannot be used again."""


class ArtifactNotFound(NotFound, code="artifact_not_found"):
    """The artifact is missing, or its content has changed."""


class Conflict(JobForgeError, code="conflict", sqlstate="JF005"):
    """The current state does not allow this operation."""


class DefinitionInactive(Conflict, code="definition_inactive", sqlstate="JF010"):
    """The definition is inactive and does not accept new jobs."""


class DuplicateKey(Conflict, code="duplicate_key", sqlstate="JF011"):
    """A job with this idempotency key already exists."""


class IdempotencyKeyReused(Conflict, code="idempotency_key_reused", sqlstate="JF013"):
    """The idempotency key was already used for a different request."""


class NotCommitted(Conflict, code="not_committed"):
    """The handler completed its job in a transaction that it did not commit."""


class Denied(JobForgeError, code="denied", sqlstate="JF006"):
    """The role or tenant does not allow this operation."""


class Forbidden(Denied, code="forbidden"):
    """The role does not allow this operation."""


class OutOfScope(Denied, code="out_of_scope"):
    """The key's scopes do not allow this operation."""


class ForeignOrigin(Denied, code="foreign_origin"):
    """The session cookie is accepted only from pages of this server."""


class Unauthenticated(JobForgeError, code="unauthenticated"):
    """Missing or invalid credentials; send an API key or token as `Authorization: Bearer <key>`."""


class TooManyRequests(JobForgeError, code="too_many_requests"):
    """Too many requests; retry after the time in the Retry-After header."""


class TooManyStreams(TooManyRequests, code="too_many_streams"):
    """The key has reached its limit of open live streams."""


class QueueFull(JobForgeError, code="tenant_queue_full", sqlstate="JF008"):
    """The tenant has reached its limit of pending jobs."""


class WrongIsolation(JobForgeError, code="wrong_isolation", sqlstate="JF012"):
    """The function requires a READ COMMITTED transaction."""


class JobFailed(JobForgeError, code="job_failed"):
    """The awaited job is dead or canceled; `detail` has its state and error."""


class ChildFailed(JobFailed, code="child_failed"):
    """A gathered job is dead or canceled; `detail` has its state and error."""


class WaitTimeout(JobForgeError, code="wait_timeout"):
    """The awaited job did not finish in time."""


class EgressError(JobForgeError, code="egress_failed"):
    """The request could not be sent."""

    is_final: bool = False  # retrying the same request cannot succeed
    retry_in_s: float | None = None


class AddressNotAllowed(EgressError, code="address_not_allowed"):
    """The address is not allowed."""

    is_final = True


class Unreachable(EgressError, code="unreachable"):
    """The host is unreachable."""


class TlsError(EgressError, code="tls_error"):
    """The TLS connection failed, for example because the certificate is not valid for the host."""


class DeadlineExceeded(EgressError, code="deadline_exceeded"):
    """The request exceeded its time limit."""


class ResponseTooLarge(EgressError, code="response_too_large"):
    """The response exceeds the size limit."""

    is_final = True


class TooManyRedirects(EgressError, code="too_many_redirects"):
    """The request was redirected too many times."""

    is_final = True


class BadResponse(EgressError, code="bad_response"):
    """The response is not valid HTTP."""


class UnexpectedStatus(EgressError, code="unexpected_status"):
    """The response has an unexpected status."""


class ArtifactUnavailable(JobForgeError, code="artifact_unavailable"):
    """The artifact store is unavailable."""


class SealBroken(JobForgeError, code="seal_broken"):
    """A sealed secret cannot be opened: it was changed, moved, or sealed with another key."""


class EventTimeout(JobForgeError, code="event_timeout"):
    """The awaited event did not arrive in time."""


class Contended(JobForgeError, code="contended"):
    """Another transaction holds a lock; nothing was changed, so the call can be repeated."""


class Unavailable(JobForgeError, code="unavailable"):
    """The database is unreachable."""


class MigrationError(JobForgeError, code="migration_error"):
    """The schema could not be migrated."""


class EmbeddedError(JobForgeError, code="embedded_error"):
    """The embedded Postgres could not be started or stopped."""


class ConfigError(JobForgeError, code="config_error"):
    """A setting is missing or invalid."""


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
