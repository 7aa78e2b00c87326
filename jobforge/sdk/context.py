"""The context of a running job, `ctx`: its fields, progress, events, logs and secrets.

One class for sync and async handlers, in a separate process and in the worker's event loop. It
writes to a JobChannel, which the runners implement. durable.py has the steps and waits that span
attempts.
"""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import orjson

from jobforge.calls.worker import complete_job
from jobforge.errors import Invalid, InvalidResult, Json
from jobforge.integrations import run_on
from jobforge.redact import redact_text
from jobforge.sdk.durable import NO_OP, DurableContext, NoOpAwaitable
from jobforge.sdk.outcome_exceptions import Cancelled
from jobforge.sdk.parents import LazyLineage, OwnWorkflow, Parents
from jobforge.sdk.worker_requests import JobChannel
from jobforge.types.jobs import ClaimedJob, Outcome, OutcomeReport, State

_LONGEST_MESSAGE = 8_000
_LONGEST_NAME = 200
_LONGEST_VALUE = 64 * 1024  # the engine's limit for one note


class Log:
    """Log lines that are stored with the attempt: `ctx.log.info("sent", to=address)`."""

    __slots__ = ("_channel",)

    def __init__(self, channel: JobChannel) -> None:
        self._channel = channel

    def debug(self, message: str, **fields: Json) -> None:
        """Write a log line of level debug."""
        self._write("debug", message, fields)

    def info(self, message: str, **fields: Json) -> None:
        """Write a log line of level info."""
        self._write("info", message, fields)

    def warning(self, message: str, **fields: Json) -> None:
        """Write a log line of level warning."""
        self._write("warning", message, fields)

    def error(self, message: str, **fields: Json) -> None:
        """Write a log line of level error."""
        self._write("error", message, fields)

    def _write(self, level: str, message: str, fields: dict[str, Json]) -> None:
        data = {"level": level, "message": _short(str(message))}
        self._channel.note("log", {**_plain_members(fields), **data})


class Context(DurableContext):
    """The running job, as its handler sees it."""

    __slots__ = (
        "_completed",
        "_has_seen_stop_request",
        "_is_stop_requested",
        "_lazy_lineage",
        "_worker_id",
    )

    def __init__(self, job: ClaimedJob, channel: JobChannel, worker_id: UUID | None = None) -> None:
        super().__init__(job, channel)
        self._worker_id = worker_id
        self._is_stop_requested = False
        self._has_seen_stop_request = False
        self._completed = False
        self._lazy_lineage: LazyLineage | None = None

    @property
    def job_id(self) -> UUID:
        """The ID of the job."""
        return self._job.job_id

    @property
    def tenant_id(self) -> UUID:
        """The tenant that owns the job."""
        return self._job.tenant_id

    @property
    def definition(self) -> str:
        """The key of the job's definition."""
        return self._job.definition

    @property
    def version(self) -> int:
        """The payload's version at enqueue time; the arguments are upgraded to the newest."""
        return self._job.version

    @property
    def queue(self) -> str:
        """The queue from which the job was claimed."""
        return self._job.queue

    @property
    def attempt(self) -> int:
        """The number of this attempt, starting at 1."""
        return self._job.attempt

    @property
    def max_attempts(self) -> int:
        """The number of attempts after which the job is dead."""
        return self._job.max_attempts

    @property
    def deadline(self) -> datetime | None:
        """When the timeout elapses, by the database's clock."""
        if self._job.timeout_s is None:
            return None
        return self._job.started_at + timedelta(seconds=self._job.timeout_s)

    @property
    def key(self) -> str | None:
        """The idempotency key."""
        return self._job.idempotency_key

    @property
    def tags(self) -> list[str]:
        """The tags of the job."""
        return list(self._job.tags or ())

    @property
    def correlation_id(self) -> str | None:
        """The ID that connects this job with other jobs and events."""
        return self._job.correlation_id

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context in which the job was enqueued."""
        return self._job.traceparent

    @property
    def payload(self) -> dict[str, Json]:
        """The payload as it was enqueued, before upgrades."""
        return self._job.payload

    @property
    def fence(self) -> str:
        """The fencing token `<job id>.<lease>`; it increases with each attempt."""
        return f"{self._job.job_id}.{self._job.lease}"

    @property
    def parents(self) -> Parents:
        """The parents of this job and their results; see docs/workflows.md."""
        return Parents(self._lineage)

    @property
    def workflow(self) -> OwnWorkflow:
        """The workflow or batch of this job."""
        return OwnWorkflow(self._lineage)

    @property
    def log(self) -> Log:
        """The log of this attempt."""
        return Log(self._channel)

    def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> NoOpAwaitable:
        """Report progress. Of several reports in quick succession, only the last may be stored."""
        data = {"done": done, "total": total, "message": message}
        given = {name: value for name, value in data.items() if value is not None}
        self._channel.note("progress", _plain_members(given))
        return NO_OP

    def emit(self, name: str, data: Json = None) -> NoOpAwaitable:
        """Add an event to the job's timeline."""
        if not name or len(name) > _LONGEST_NAME:
            raise Invalid(f"name must have 1 to {_LONGEST_NAME} characters", field="name")
        self._channel.note("event", {"name": name, "data": to_json_value(data)})
        return NO_OP

    def secret(self, name: str) -> str:
        """Return a secret of the worker. Its value is redacted from the job's output."""
        return self._channel.secret(name)

    @property
    def cancelled(self) -> bool:
        """Whether the job was asked to stop.

        A handler that has read True gets the grace period to stop by itself.
        """
        self._has_seen_stop_request = self._has_seen_stop_request or self._is_stop_requested
        return self._is_stop_requested

    def check(self) -> None:
        """Raise Cancelled if the job was asked to stop."""
        if self.cancelled:
            raise Cancelled("The job was asked to stop")

    def complete_in(self, conn: Any, result: Json = None) -> Any:  # noqa: ANN401 - a connection of any library
        """Complete the job as succeeded in the transaction of the handler's own connection.

        Await the call for an async connection. The commit of that transaction stores the handler's
        writes and the completion together, or neither. Raises InvalidResult for a result that a row
        cannot store; the handler should then roll back.
        """
        if self._worker_id is None:
            raise Invalid("The job cannot be completed because no worker runs it", field="conn")
        report = OutcomeReport(*self._job.token, Outcome.SUCCEEDED, self._job.started_at, result)
        done = run_on(conn, complete_job(self._worker_id, report).map_result(_check_completed))
        self._completed = True
        return done if hasattr(done, "__await__") else NO_OP

    def with_job_fields(self, **fields: Any) -> "Context":  # noqa: ANN401 - fields of a ClaimedJob
        """Return a context for another job, such as the finished job in a hook."""
        return Context(self._job._replace(**fields), self._channel)

    # For the runners only.

    @property
    def _lineage(self) -> LazyLineage:
        if self._lazy_lineage is None:
            self._lazy_lineage = LazyLineage(self._channel)
        return self._lazy_lineage

    @property
    def was_completed(self) -> bool:
        """Whether `complete_in` was called; then only a commit makes the job succeed."""
        return self._completed

    @property
    def payload_json(self) -> str:
        return self._job.payload_json

    @property
    def is_stop_requested(self) -> bool:
        """Like `cancelled`, without marking the request as seen by the handler."""
        return self._is_stop_requested

    @property
    def has_seen_stop_request(self) -> bool:
        """Whether the handler has read `cancelled` as True."""
        return self._has_seen_stop_request

    def request_stop(self) -> None:
        self._is_stop_requested = True


def _check_completed(state: State | None) -> None:
    """Raise InvalidResult when the engine settled the job in another state than succeeded.

    The engine settles a result that it cannot store as a failure. None means that the outcome was
    already recorded.
    """
    if state not in {None, State.SUCCEEDED}:
        raise InvalidResult(
            "The job cannot be completed with this result: it is not JSON, larger than 1 MiB, or"
            " nested more than 64 levels deep",
            field="result",
        )


def _short(message: str) -> str:
    """Truncate the message; redact it first, because a truncated secret is not recognized."""
    if len(message) <= _LONGEST_MESSAGE:
        return message
    return redact_text(message)[:_LONGEST_MESSAGE]


def _plain_members(members: dict[str, Json]) -> dict[str, Json]:
    return {name: to_json_value(value) for name, value in members.items()}


def to_json_value(value: Json) -> Json:
    """Return the value as JSON; a value that is not JSON or too long becomes a string."""
    if value is None or type(value) in {float, bool}:
        return value
    if type(value) is str:
        return value if len(value) <= _LONGEST_VALUE else _short(value)
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS
    try:
        text = orjson.dumps(value, default=str, option=options)
        return orjson.loads(text) if len(text) <= _LONGEST_VALUE else _short(text.decode())
    except (TypeError, ValueError, RecursionError):
        return _short(str(value))
