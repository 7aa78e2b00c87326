"""Spans that jobs make in processes of their own: each is told to the worker when it has ended.

A job's process is short, and knows neither where traces are sent nor by which key: to set up an
exporter in each would take longer than most jobs, and what was not sent by its end would be lost.
So these are made by OpenTelemetry's API alone; its SDK would add a tenth to what every fork costs
(docs/decisions/0020). An application that has set up OpenTelemetry by itself has done so in that
process too: from there, it sends them.
"""

import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from os import urandom
from time import time_ns
from types import TracebackType

import orjson
from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import Context, attach
from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    get_current_span,
    set_span_in_context,
    use_span,
)
from opentelemetry.util._decorator import _agnosticcontextmanager
from opentelemetry.util.types import Attributes, AttributeValue

from jobforge.errors import Invalid, Json
from jobforge.observability.tracing import spans
from jobforge.observability.tracing.parent import EMPTY_CONTEXT, remote_context, unrecorded_context
from jobforge.types.jobs import ClaimedJob
from jobforge.types.jsonb import replace_unencodable

Send = Callable[[bytes], None]
TracerScope = tuple[str, str | None]  # who makes spans: name and version

_MOST_SPANS = 1_000  # of one attempt
_MOST = 128  # attributes, events or links of a span, as the SDK has it
_FLUSH_MS = 5_000
_provider: "ChildTracerProvider | None" = None


def prepare() -> None:
    """In the process that jobs are forked from, once for all of them."""
    global _provider  # noqa: PLW0603 - one per process, and a fork has it too
    attach(set_span_in_context(_attempt, EMPTY_CONTEXT))
    if not spans.is_enabled():
        _provider = ChildTracerProvider()
        trace.set_tracer_provider(_provider)


def enter(job: ClaimedJob, send: Send) -> None:
    """In a job's process: from here on everything is part of its attempt."""
    _attempt.job = job
    if _provider is not None:
        _provider.send = send


def flush() -> None:
    """At the end of a job's process: what an exporter of the application's still holds is sent."""
    if _provider is not None:
        return
    force = getattr(trace.get_tracer_provider(), "force_flush", None)
    if force is not None:
        force(_FLUSH_MS)


class AttemptSpan(NonRecordingSpan):
    """The span around all that a job's process does, which its worker has made.

    It is current before there is a job, so that a fork has nothing to do but to name that.
    """

    job: ClaimedJob | None = None

    def get_span_context(self) -> SpanContext:
        if self.job is None:
            return INVALID_SPAN_CONTEXT
        context = remote_context(self.job.traceparent) or unrecorded_context(self.job.job_id)
        return get_current_span(context).get_span_context()


_attempt = AttemptSpan(INVALID_SPAN_CONTEXT)


class ChildTracerProvider(trace.TracerProvider):
    """Tells of each span that has ended, up to some number of them."""

    def __init__(self) -> None:
        self.send: Send = _discard
        self._left = _MOST_SPANS

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,  # noqa: ARG002 - as OpenTelemetry has it
        attributes: Attributes = None,  # noqa: ARG002 - as above
    ) -> "ChildTracer":
        return ChildTracer(
            (instrumenting_module_name, instrumenting_library_version), self._send_span
        )

    def _send_span(self, span: "ChildSpan") -> None:
        if self._left > 0:
            self._left -= 1
            with suppress(Invalid):  # it is too large to be told
                self.send(_encode_span(span))


class ChildTracer(trace.Tracer):
    """What is recorded, the attempt has decided; what lies outside of it belongs nowhere."""

    def __init__(self, scope: TracerScope, tell: Callable[["ChildSpan"], None]) -> None:
        self._scope = scope
        self._report = tell

    def start_span(  # noqa: PLR0913, PLR0917 - as above
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,  # noqa: FBT001, FBT002 - as above
        set_status_on_exception: bool = True,  # noqa: FBT001, FBT002 - as above
    ) -> trace.Span:
        parent = get_current_span(context).get_span_context()
        if not (parent.is_valid and parent.trace_flags.sampled):
            return NonRecordingSpan(parent)
        span = ChildSpan(name, parent, kind, self._scope, start_time or time_ns(), self._report)
        span.records_exception = record_exception
        span.sets_status_on_exception = set_status_on_exception
        span.set_attributes(attributes or {})
        for link in links or ():
            span.add_link(link.context, link.attributes)
        return span

    @_agnosticcontextmanager
    def start_as_current_span(  # noqa: PLR0913, PLR0917 - as above
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,  # noqa: FBT001, FBT002 - as above
        set_status_on_exception: bool = True,  # noqa: FBT001, FBT002 - as above
        end_on_exit: bool = True,  # noqa: FBT001, FBT002 - as above
    ) -> Iterator[trace.Span]:
        span = self.start_span(name, context, kind, attributes, links, start_time)
        with use_span(span, end_on_exit, record_exception, set_status_on_exception):
            yield span


class ChildSpan(trace.Span):
    """Code that reads the name, the attributes or the status of the SDK's finds them here too."""

    records_exception = sets_status_on_exception = True

    def __init__(  # noqa: PLR0913, PLR0917 - what a span begins with
        self,
        name: str,
        parent: SpanContext,
        kind: SpanKind,
        scope: TracerScope,
        start_time: int,
        tell: Callable[["ChildSpan"], None],
    ) -> None:
        self.name = name
        self.parent = parent
        self.kind = kind
        self.scope = scope
        self.start_time = start_time
        self.end_time: int | None = None
        self.context = SpanContext(
            *(parent.trace_id, int.from_bytes(urandom(8), "big"), False),
            *(parent.trace_flags, parent.trace_state),
        )
        self.attributes = BoundedAttributes(_MOST, immutable=False)
        self.events: deque[tuple[str, dict[str, Json], int]] = deque(maxlen=_MOST)
        self.links: deque[tuple[SpanContext, dict[str, Json]]] = deque(maxlen=_MOST)
        self.status = Status()
        self._report = tell

    def get_span_context(self) -> SpanContext:
        return self.context

    def is_recording(self) -> bool:
        return self.end_time is None

    def end(self, end_time: int | None = None) -> None:
        if self.is_recording():
            self.end_time = end_time or time_ns()
            self._report(self)

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        for key, value in attributes.items():
            self.set_attribute(key, value)

    def set_attribute(self, key: str, value: AttributeValue) -> None:
        if self.is_recording():
            self.attributes[key] = value

    def add_event(
        self, name: str, attributes: Attributes = None, timestamp: int | None = None
    ) -> None:
        if self.is_recording():
            cleaned = dict(BoundedAttributes(_MOST, attributes))
            self.events.append((name, cleaned, timestamp or time_ns()))

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        if self.is_recording() and context.is_valid:
            self.links.append((context, dict(BoundedAttributes(_MOST, attributes))))

    def update_name(self, name: str) -> None:
        if self.is_recording():
            self.name = name

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        given = status if isinstance(status, Status) else Status(status, description)
        is_final = self.status.status_code is StatusCode.OK
        if self.is_recording() and not is_final and given.status_code is not StatusCode.UNSET:
            self.status = given

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: FBT001, FBT002 - as above
    ) -> None:
        kind = type(exception)
        told: dict[str, AttributeValue] = {
            "exception.type": _full_name(kind),
            "exception.message": str(exception),
            "exception.stacktrace": "".join(traceback.format_exception(exception)),
            "exception.escaped": str(escaped),
        }
        self.add_event("exception", {**told, **(attributes or {})}, timestamp)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        if error is not None and self.records_exception:
            self.record_exception(error, escaped=True)
        if error is not None and self.sets_status_on_exception:
            self.set_status(StatusCode.ERROR, f"{type(error).__name__}: {error}")
        super().__exit__(kind, error, where)


def _discard(_: bytes) -> None:
    """Where nobody listens."""


def _full_name(kind: type[BaseException]) -> str:
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def _encode_span(span: ChildSpan) -> bytes:
    written = _span_to_json(span)
    try:
        return orjson.dumps(written, default=str)
    except TypeError:  # half a character, a number of many digits
        return orjson.dumps(replace_unencodable(written))


def _span_to_json(span: ChildSpan) -> dict[str, Json]:
    """As child_spans.py reads it."""
    return {
        "ids": _ids(span.context),
        "parent": _ids(span.parent),
        "name": span.name,
        "kind": span.kind.name,
        "start": span.start_time,
        "end": span.end_time,
        "attributes": dict(span.attributes),
        "events": list(span.events),
        "links": [(*_ids(context), given) for context, given in span.links],
        "status": [span.status.status_code.name, span.status.description],
        "scope": span.scope,
    }


def _ids(context: SpanContext) -> tuple[str, str]:
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"
