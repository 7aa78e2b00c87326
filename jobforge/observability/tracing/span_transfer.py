"""Passes finished spans from a job's process to its worker, which exports them with its own.

The worker redacts them, and validates them, because a job can send anything.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import orjson
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import DEFAULT_OFF
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from jobforge.errors import Invalid, Json
from jobforge.observability.tracing.traceparent import read_traceparent
from jobforge.redact import log_scope, redact
from jobforge.types.jsonb import replace_unencodable

_MOST_SPANS = 1_000  # per attempt
_receiver: "SpanReceiver | None" = None


def create_provider(send: Callable[[bytes], None]) -> TracerProvider:
    """Return a provider for a job's process that sends the spans within the attempt's trace."""
    provider = TracerProvider(DEFAULT_OFF, Resource.get_empty(), shutdown_on_exit=False)
    provider.add_span_processor(_SpanSender(send))
    return provider


class _SpanSender(SpanProcessor):
    """Sends each finished span, up to a maximum number per attempt."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self._left = _MOST_SPANS

    def on_end(self, span: ReadableSpan) -> None:
        if self._left > 0:
            self._left -= 1
            with suppress(Invalid):  # it is too large to be sent
                self._send(_encode_span(span))


class SpanReceiver:
    """Passes received spans to the worker's span processor."""

    def __init__(self, processor: SpanProcessor, resource: Resource) -> None:
        self._processor = processor
        self._resource = resource

    def receive(self, traceparent: str | None, body: bytes) -> None:
        """Export a span of an attempt; ignore a span that belongs to another trace."""
        parent = read_traceparent(traceparent)
        document = orjson.loads(body)
        if parent is not None and document["ids"][0] == parent.trace_id:
            self._processor.on_end(_decode_span(document, self._resource))


def configure_receiver(processor: SpanProcessor, resource: Resource) -> None:
    """Export received spans through this processor."""
    global _receiver  # noqa: PLW0603 - one per process
    _receiver = SpanReceiver(processor, resource)


def receive_span(traceparent: str | None, body: bytes) -> None:
    if _receiver is not None:
        _receiver.receive(traceparent, body)


def _encode_span(span: ReadableSpan) -> bytes:
    scope = span.instrumentation_scope
    document = {
        "ids": _ids(span.context),
        "parent": span.parent and _ids(span.parent),
        "name": span.name,
        "kind": span.kind.name,
        "start": span.start_time,
        "end": span.end_time,
        "attributes": dict(span.attributes or {}),
        "events": [
            (event.name, dict(event.attributes or {}), event.timestamp) for event in span.events
        ],
        "links": [(*_ids(link.context), dict(link.attributes or {})) for link in span.links],
        "status": (span.status.status_code.name, span.status.description),
        "scope": scope and (scope.name, scope.version),
    }
    try:
        return orjson.dumps(document, default=str)
    except TypeError:  # a lone surrogate, or an integer of more than 64 bits
        return orjson.dumps(replace_unencodable(document))


def _decode_span(document: dict[str, Json], resource: Resource) -> ReadableSpan:
    events = [
        Event(str(name), _attributes(given), _moment(at)) for name, given, at in document["events"]
    ]
    links = [Link(_context(*ids), _attributes(given)) for *ids, given in document["links"]]
    code, description = document["status"]
    return ReadableSpan(
        redact(str(document["name"]), log_scope()),
        _context(*document["ids"]),
        document["parent"] and _context(*document["parent"]),
        resource,
        _attributes(document["attributes"]),
        _bounded(events),
        _bounded(links),
        SpanKind[document["kind"]],
        status=Status(StatusCode[code], description and redact(description, log_scope())),
        start_time=_moment(document["start"]),
        end_time=_moment(document["end"]),
        instrumentation_scope=_scope(*document["scope"]),
    )


# Validate times, strings and IDs: an exporter would fail on an invalid one and lose other spans.


def _moment(given: Json) -> int:
    moment = int(given)
    if not 0 <= moment < 2**64:
        raise ValueError("invalid span time")
    return moment


def _scope(name: Json, version: Json) -> InstrumentationScope:
    return InstrumentationScope(str(name), version and str(version))


def _context(trace_id: str, span_id: str) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED)
    context = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags)
    if not context.is_valid:
        raise ValueError("invalid span IDs")
    return context


def _attributes(given: Mapping[str, Json]) -> BoundedAttributes:
    return BoundedAttributes(attributes=redact(given, log_scope()))


def _bounded(given: Sequence[Json]) -> "BoundedList[Json]":
    return BoundedList.from_seq(max(1, len(given)), given)


def _ids(context: SpanContext) -> tuple[str, str]:
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"
