"""Receives spans of jobs' processes in the worker, and exports them with the worker's spans.

child_tracer.py encodes them.
"""

from collections.abc import Mapping, Sequence

import orjson
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from jobforge.errors import Json
from jobforge.observability.tracing.traceparent import read_traceparent
from jobforge.redact import log_scope, redact

_receiver: "ChildSpanReceiver | None" = None


class ChildSpanReceiver:
    """Passes received spans to the worker's span processor."""

    def __init__(self, processor: SpanProcessor, resource: Resource) -> None:
        self._processor = processor
        self._resource = resource

    def receive(self, traceparent: str | None, body: bytes) -> None:
        """Export a span of an attempt; ignore a span that belongs to another trace."""
        parent = read_traceparent(traceparent)
        document = orjson.loads(body)
        if parent is not None and document["ids"][0] == parent.trace_id:
            self._processor.on_end(_read(document, self._resource))


def configure_receiver(processor: SpanProcessor, resource: Resource) -> None:
    """Export received spans through this processor."""
    global _receiver  # noqa: PLW0603 - one per process
    _receiver = ChildSpanReceiver(processor, resource)


def receive_span(traceparent: str | None, body: bytes) -> None:
    if _receiver is not None:
        _receiver.receive(traceparent, body)


def _read(document: dict[str, Json], resource: Resource) -> ReadableSpan:
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
