"""What a handler gets to know and to say about its own job: `ctx`.

One class for sync and async handlers, in a process of their own and in the worker's loop. What it
says goes over a Channel; who listens there is left to the runners. What it has done in earlier
attempts, and what it does once for all of them, is in durable.py.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol
from uuid import UUID

import orjson

from jobforge.calls.worker import complete_job
from jobforge.errors import Invalid, InvalidResult, Json
from jobforge.integrations import run_on
from jobforge.redact import redact_text
from jobforge.sdk import durable
from jobforge.sdk.durable import NO_OP, DurableContext, NoOpAwaitable
from jobforge.sdk.parents import LazyLineage, OwnWorkflow, Parents
from jobforge.sdk.retry import Cancelled
from jobforge.types.jobs import ClaimedJob, Enqueued, JobRequest, Outcome, OutcomeReport, State

_LONGEST_MESSAGE = 8_000
_LONGEST_NAME = 200
_LONGEST_VALUE = 64 * 1024  # the engine keeps no more of all that is said at once


class Channel(durable.RequestChannel, Protocol):
    """How a running job reaches its worker."""

    def note(self, kind: str, data: dict[str, Json]) -> None: ...

    def secret(self, name: str) -> str: ...

    def enqueue(self, jobs: Sequence[JobRequest]) -> list[Enqueued]: ...


class Log:
    """Lines that are kept with the attempt: `ctx.log.info("sent", to=address)`."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def debug(self, message: str, **fields: Json) -> None:
        self._write("debug", message, fields)

    def info(self, message: str, **fields: Json) -> None:
        self._write("info", message, fields)

    def warning(self, message: str, **fields: Json) -> None:
        self._write("warning", message, fields)

    def error(self, message: str, **fields: Json) -> None:
        self._write("error", message, fields)

    def _write(self, level: str, message: str, fields: dict[str, Json]) -> None:
        data = {"level": level, "message": _short(str(message))}
        self._channel.note("log", {**_plain_members(fields), **data})


class Context(DurableContext):
    """The job that runs, for its handler."""

    __slots__ = (
        "_completed",
        "_has_seen_stop_request",
        "_is_stop_requested",
        "_lazy_lineage",
        "_worker_id",
    )

    _channel: Channel

    def __init__(self, job: ClaimedJob, channel: Channel, worker_id: UUID | None = None) -> None:
        super().__init__(job, channel)
        self._worker_id = worker_id
        self._is_stop_requested = False
        self._has_seen_stop_request = False
        self._completed = False
        self._lazy_lineage: LazyLineage | None = None

    @property
    def job_id(self) -> UUID:
        return self._job.job_id

    @property
    def tenant_id(self) -> UUID:
        return self._job.tenant_id

    @property
    def definition(self) -> str:
        return self._job.definition

    @property
    def version(self) -> int:
        """The version under which the job was enqueued; its arguments are of the newest."""
        return self._job.version

    @property
    def queue(self) -> str:
        return self._job.queue

    @property
    def attempt(self) -> int:
        """1 for the first."""
        return self._job.attempt

    @property
    def max_attempts(self) -> int:
        return self._job.max_attempts

    @property
    def deadline(self) -> datetime | None:
        """When the timeout passes, by the database's clock."""
        if self._job.timeout_s is None:
            return None
        return self._job.started_at + timedelta(seconds=self._job.timeout_s)

    @property
    def key(self) -> str | None:
        """The idempotency key."""
        return self._job.idempotency_key

    @property
    def tags(self) -> list[str]:
        return list(self._job.tags or ())

    @property
    def correlation_id(self) -> str | None:
        return self._job.correlation_id

    @property
    def traceparent(self) -> str | None:
        return self._job.traceparent

    @property
    def payload(self) -> dict[str, Json]:
        """As it was enqueued."""
        return self._job.payload

    @property
    def fence(self) -> str:
        """`<job id>.<lease>`: grows with each attempt, so that others can refuse an older one."""
        return f"{self._job.job_id}.{self._job.lease}"

    @property
    def parents(self) -> Parents:
        """The jobs that this one came after, and what they returned; docs/workflows.md."""
        return Parents(self._lineage)

    @property
    def workflow(self) -> OwnWorkflow:
        """The workflow or batch that this job is of."""
        return OwnWorkflow(self._lineage)

    @property
    def log(self) -> Log:
        return Log(self._channel)

    def progress(
        self, done: float, total: float | None = None, message: str | None = None
    ) -> NoOpAwaitable:
        """How far the job has come. Only the latest of many in a row may be kept."""
        data = {"done": done, "total": total, "message": message}
        given = {name: value for name, value in data.items() if value is not None}
        self._channel.note("progress", _plain_members(given))
        return NO_OP

    def emit(self, name: str, data: Json = None) -> NoOpAwaitable:
        """An event of the job's own, in its timeline."""
        if not name or len(name) > _LONGEST_NAME:
            raise Invalid(f"the name of an event has 1 to {_LONGEST_NAME} letters", field="name")
        self._channel.note("event", {"name": name, "data": to_json_value(data)})
        return NO_OP

    def secret(self, name: str) -> str:
        """A secret of the worker's. Its value is redacted from all that the job says."""
        return self._channel.secret(name)

    @property
    def cancelled(self) -> bool:
        """Whether the job was asked to stop. A handler that has seen it is left to its grace."""
        self._has_seen_stop_request = self._has_seen_stop_request or self._is_stop_requested
        return self._is_stop_requested

    def check(self) -> None:
        """Raises Cancelled when the job was asked to stop."""
        if self.cancelled:
            raise Cancelled("the job was asked to stop")

    def complete_in(self, conn: Any, result: Json = None) -> Any:  # noqa: ANN401 - of any library
        """Ends the job as succeeded within the transaction of the handler's own connection.

        Await it when the connection is an async one. Whether the handler's writes and this are
        kept, its commit decides: for both or for neither. InvalidResult for a result that no row
        can keep: then neither should be committed.
        """
        if self._worker_id is None:
            raise Invalid("no worker holds this job, so it cannot be completed", field="conn")
        report = OutcomeReport(*self._job.token, Outcome.SUCCEEDED, self._job.started_at, result)
        done = run_on(conn, complete_job(self._worker_id, report).map_result(_check_completed))
        self._completed = True
        return done if hasattr(done, "__await__") else NO_OP

    def with_job_fields(self, **fields: Any) -> "Context":  # noqa: ANN401 - fields of a ClaimedJob
        """The same, speaking of another job: hooks are told of the job that has ended."""
        return Context(self._job._replace(**fields), self._channel)

    # The rest is for the runners.

    @property
    def _lineage(self) -> LazyLineage:
        if self._lazy_lineage is None:
            self._lazy_lineage = LazyLineage(self._channel)
        return self._lazy_lineage

    @property
    def was_completed(self) -> bool:
        """Whether `complete_in` was called: then only a commit can make the job succeed."""
        return self._completed

    @property
    def payload_json(self) -> str:
        return self._job.payload_json

    @property
    def is_stop_requested(self) -> bool:
        """As `cancelled`, without the handler having seen it."""
        return self._is_stop_requested

    @property
    def has_seen_stop_request(self) -> bool:
        """Whether the handler knows that it was asked to stop."""
        return self._has_seen_stop_request

    def request_stop(self) -> None:
        self._is_stop_requested = True


def _check_completed(state: State | None) -> None:
    """The engine settles a result that it cannot keep as a failure. None: it was told before."""
    if state not in {None, State.SUCCEEDED}:
        raise InvalidResult(
            "the job cannot be completed with this result: it is no JSON, larger than 1 MiB or"
            " nested more than 64 levels deep",
            field="result",
        )


def _short(message: str) -> str:
    """A cut might go through a secret, so that the rest of it is no longer known for one."""
    if len(message) <= _LONGEST_MESSAGE:
        return message
    return redact_text(message)[:_LONGEST_MESSAGE]


def _plain_members(members: dict[str, Json]) -> dict[str, Json]:
    return {name: to_json_value(value) for name, value in members.items()}


def to_json_value(value: Json) -> Json:
    """The value as JSON has it; what JSON cannot hold, or is very long, is put into words."""
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
