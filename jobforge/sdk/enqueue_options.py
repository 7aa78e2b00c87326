"""The options of `using(…)`: how a job is enqueued, apart from its arguments.

Options are validated on input and stored as a JobRequest without definition and payload.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol, TypedDict
from uuid import UUID

from jobforge.errors import Invalid
from jobforge.sdk.definition_settings import refuse_unknown, to_whole_seconds
from jobforge.sdk.duration import Duration, to_seconds
from jobforge.types.jobs import JobRequest

TenantRef = UUID | str  # an ID, or a slug
Dedupe = Literal["active"] | Duration | None
OnConflict = Literal["existing", "replace", "raise"]
OnParentFailure = Literal["cancel", "run", "wait"]

EMPTY_REQUEST = JobRequest("")


class HasId(Protocol):
    """A job with an ID: a handle of an enqueued job, or a node of a workflow."""

    @property
    def id(self) -> UUID: ...


Parent = UUID | HasId


class EnqueueOptions(TypedDict, total=False):
    """The arguments of `using(…)`; docs/python.md describes each. None is the default of all."""

    tenant: TenantRef | None
    conn: Any  # a connection of any of the libraries in integrations/
    delay: Duration | None
    at: datetime | None
    far_future: bool | None
    key: str | None
    dedupe: Dedupe
    on_conflict: OnConflict | None
    priority: int | None
    queue: str | None
    tags: Sequence[str] | None
    max_attempts: int | None
    timeout: Duration | None
    expires_in: Duration | None
    expires_at: datetime | None
    limit_key: str | None
    correlation_id: str | None
    after: Parent | Iterable[Parent] | None
    on_parent_failure: OnParentFailure | None
    node: str | None


@dataclass(frozen=True, slots=True)
class Options:
    """The tenant, the connection, and the other fields of the request."""

    tenant: TenantRef | None = None
    conn: Any = None  # a connection of any of the libraries in integrations/
    request: JobRequest = field(default=EMPTY_REQUEST)
    after: tuple[Any, ...] = ()  # parents as objects: a node has no ID yet
    node: str | None = None

    def override(self, defaults: "Options") -> "Options":
        """Merge with other options; values set in this object win."""
        request = merge_requests(self.request, defaults.request)
        if request.key is None and (request.key_mode or request.on_conflict):
            raise Invalid("dedupe and on_conflict require a key", field="key")
        return Options(
            defaults.tenant if self.tenant is None else self.tenant,
            defaults.conn if self.conn is None else self.conn,
            request,
            self.after or defaults.after,
            defaults.node if self.node is None else self.node,
        )


def merge_requests(request: JobRequest, defaults: JobRequest) -> JobRequest:
    """Merge two requests; fields set in the first one win."""
    pairs = zip(request, defaults, strict=True)
    return JobRequest._make(default if own is None else own for own, default in pairs)


def read_options(options: EnqueueOptions) -> Options:
    """Validate the options of `using(…)`."""
    refuse_unknown(options, EnqueueOptions, "using")
    tags, timeout = options.get("tags"), options.get("timeout")
    if isinstance(tags, str):  # a string is a sequence of strings, too
        raise Invalid("tags must be a list of strings", field="tags")
    mode, window_s = _key_mode(options.get("dedupe"))
    fields: dict[str, Any] = {
        name: value for name, value in options.items() if name in _FIELDS_AS_GIVEN
    }
    request = EMPTY_REQUEST._replace(
        run_at=_moment(options.get("at"), "at"),
        delay_s=_seconds(options.get("delay"), "delay"),
        expires_at=_moment(options.get("expires_at"), "expires_at"),
        expires_in_s=_seconds(options.get("expires_in"), "expires_in"),
        timeout_s=None if timeout is None else to_whole_seconds(timeout, "timeout"),
        key_mode=mode,
        key_window_s=window_s,
        tags=None if tags is None else list(tags),
        **fields,
    )
    after = read_parents(options.get("after"))
    return Options(options.get("tenant"), options.get("conn"), request, after, options.get("node"))


# Options that a request stores under the same name. Nodes in `after` have no ID yet.
_FIELDS_AS_GIVEN = EnqueueOptions.__annotations__.keys() & (
    {*JobRequest._fields} - {"after", "expires_at", "tags"}
)


def read_parents(after: object) -> tuple[Any, ...]:
    """Return one or several parents as a tuple."""
    if after is None:
        return ()
    return tuple(after) if isinstance(after, Iterable) else (after,)


def _key_mode(dedupe: Dedupe) -> tuple[str | None, float | None]:
    if dedupe is None:
        return None, None
    if isinstance(dedupe, str):
        if dedupe != "active":
            raise Invalid(f'dedupe must be "active" or a duration, not {dedupe!r}', field="dedupe")
        return "active", None
    return "window", to_seconds(dedupe, "dedupe")


def _seconds(duration: Duration | None, name: str) -> float | None:
    return None if duration is None else to_seconds(duration, name)


def _moment(moment: object, name: str) -> datetime | None:
    if moment is None:
        return None
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise Invalid(f"{name} must be a datetime with a time zone", field=name)
    return moment
