"""Spans created in a job's process; each is sent to the worker when it has ended.

A job's process is short-lived and has neither the exporter's endpoint nor its credentials. Setting
up an exporter in each process would take longer than most jobs, and spans that were not exported by
its end would be lost. So these spans use only OpenTelemetry's API; its SDK would add 10% to the
cost of every fork (docs/decisions/0020). If the application sets up OpenTelemetry itself, its
provider exists in that process too and exports the spans.
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
TracerScope = tuple[str, str | None]  # the tracer's name and version

_MOST_SPANS = 1_000  # per attempt
_MOST = 128  # attributes, events or links per span, the SDK's default
_FLUSH_MS = 5_000
_provider: "ChildTracerProvider | None" = None


def prepare() -> None:
    """Set up tracing once in the process that jobs are forked from."""
    global _provider  # noqa: PLW0603 - one per process, inherited by forks
    attach(set_span_in_context(_attempt, EMPTY_CONTEXT))
    if not spans.is_enabled():
        _provider = ChildTracerProvider()
        trace.set_tracer_provider(_provider)


def enter(job: ClaimedJob, send: Send) -> None:
    """Make the attempt's span current in a job's process."""
    _attempt.job = job
    if _provider is not None:
        _provider.send = send


def flush() -> None:
    """Flush the application's own exporter at the end of a job's process."""
    if _provider is not None:
        return
    force = getattr(trace.get_tracer_provider(), "force_flush", None)
    if force is not None:
        force(_FLUSH_MS)


class AttemptSpan(NonRecordingSpan):
    """The span of the attempt, which the worker creates; the parent of all spans in this process.

    It is the current span before the fork, so that a forked process only has to set `job`.
    """

    job: ClaimedJob | None = None

    def get_span_context(self) -> SpanContext:
        if self.job is None:
            return INVALID_SPAN_CONTEXT
        context = remote_context(self.job.traceparent) or unrecorded_context(self.job.job_id)
        return get_current_span(context).get_span_context()


_attempt = AttemptSpan(INVALID_SPAN_CONTEXT)


class ChildTracerProvider(trace.TracerProvider):
    """Sends each finished span, up to a maximum number per attempt."""

    def __init__(self) -> None:
        self.send: Send = _discard
        self._left = _MOST_SPANS

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,  # noqa: ARG002 - OpenTelemetry's signature
        attributes: Attributes = None,  # noqa: ARG002 - OpenTelemetry's signature
    ) -> "ChildTracer":
        return ChildTracer(
            (instrumenting_module_name, instrumenting_library_version), self._send_span
        )

    def _send_span(self, span: "ChildSpan") -> None:
        if self._left > 0:
            self._left -= 1
            with suppress(Invalid):  # it is too large to be sent
                self.send(_encode_span(span))


class ChildTracer(trace.Tracer):
    """Creates spans within the attempt's trace, if the attempt is sampled."""

    def __init__(self, scope: TracerScope, report: Callable[["ChildSpan"], None]) -> None:
        self._scope = scope
        self._report = report

    def start_span(  # noqa: PLR0913, PLR0917 - OpenTelemetry's signature
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,  # noqa: FBT001, FBT002 - OpenTelemetry's signature
        set_status_on_exception: bool = True,  # noqa: FBT001, FBT002 - OpenTelemetry's signature
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
    def start_as_current_span(  # noqa: PLR0913, PLR0917 - OpenTelemetry's signature
        self,
        name: str,
        context: Context | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        start_time: int | None = None,
        record_exception: bool = True,  # noqa: FBT001, FBT002 - OpenTelemetry's signature
        set_status_on_exception: bool = True,  # noqa: FBT001, FBT002 - OpenTelemetry's signature
        end_on_exit: bool = True,  # noqa: FBT001, FBT002 - OpenTelemetry's signature
    ) -> Iterator[trace.Span]:
        span = self.start_span(name, context, kind, attributes, links, start_time)
        with use_span(span, end_on_exit, record_exception, set_status_on_exception):
            yield span


class ChildSpan(trace.Span):
    """A span with name, attributes and status as readable as on the SDK's spans."""

    records_exception = sets_status_on_exception = True

    def __init__(  # noqa: PLR0913, PLR0917 - the fields of a new span
        self,
        name: str,
        parent: SpanContext,
        kind: SpanKind,
        scope: TracerScope,
        start_time: int,
        report: Callable[["ChildSpan"], None],
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
        self._report = report

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
        escaped: bool = False,  # noqa: FBT001, FBT002 - OpenTelemetry's signature
    ) -> None:
        kind = type(exception)
        details: dict[str, AttributeValue] = {
            "exception.type": _full_name(kind),
            "exception.message": str(exception),
            "exception.stacktrace": "".join(traceback.format_exception(exception)),
            "exception.escaped": str(escaped),
        }
        self.add_event("exception", {**details, **(attributes or {})}, timestamp)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        if error is not None and self.records_exception:
            self.record_exception(error, escaped=True)
        if error is not None and self.sets_status_on_exception:
            self.set_status(StatusCode.ERROR, f"{type(error).__name__}: {error}")
        super().__exit__(kind, error, tb)


def _discard(_: bytes) -> None:
    """Drop the span: no worker receives it."""


def _full_name(kind: type[BaseException]) -> str:
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def _encode_span(span: ChildSpan) -> bytes:
    document = _span_to_json(span)
    try:
        return orjson.dumps(document, default=str)
    except TypeError:  # a lone surrogate, or an integer of more than 64 bits
        return orjson.dumps(replace_unencodable(document))


def _span_to_json(span: ChildSpan) -> dict[str, Json]:
    """Return the object that child_spans.py reads."""
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
