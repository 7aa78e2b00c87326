"""Spans on their way from a job's process to its worker, which sends them along with its own.

A job's process is short, and knows neither where traces are sent nor by which key: to set up an
exporter in each would take longer than most jobs, and what was not sent by its end would be lost.
An application that has set up OpenTelemetry by itself has done so in that process too: from there,
it sends them.
"""

from collections.abc import Callable, Mapping, Sequence

import orjson
from opentelemetry import trace
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import attach
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.sdk.util import BoundedList
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags, Tracer
from opentelemetry.util.types import Attributes

from jobforge.errors import Json
from jobforge.job import ClaimedJob
from jobforge.redact import redact
from jobforge.tracing import spans
from jobforge.tracing.parent import remote, unrecorded
from jobforge.tracing.traceparent import read_traceparent

Send = Callable[[bytes], None]

_MOST_SPANS = 1_000  # of one attempt
_FLUSH_MS = 5_000
# What is recorded, the attempt has decided; what lies outside of it belongs nowhere.
_SAMPLER = ParentBased(ALWAYS_OFF)
_provider: "Provider | None" = None
_receiver: "Receiver | None" = None


class Sender(SpanProcessor):
    """In a job's process: says each span that has ended, up to some number of them."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._left = _MOST_SPANS

    def on_end(self, span: ReadableSpan) -> None:
        if self._left > 0:
            self._left -= 1
            self._send(orjson.dumps(_written(span), default=str))


class Provider(trace.TracerProvider):
    """Of a job's process. Most make no spans: the SDK's own provider is made for the first.

    Nor is that made before the fork: it would look around for what it runs in after each.
    """

    def __init__(self) -> None:
        self.send: Send = _nowhere
        self._made: TracerProvider | None = None

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: Attributes = None,
    ) -> Tracer:
        if self._made is None:
            self._made = TracerProvider(_SAMPLER, Resource.get_empty(), shutdown_on_exit=False)
            self._made.add_span_processor(Sender(self._pass_on))
        return self._made.get_tracer(
            instrumenting_module_name, instrumenting_library_version, schema_url, attributes
        )

    def _pass_on(self, body: bytes) -> None:
        self.send(body)


class Receiver:
    """In the worker: what comes joins the spans that are made here."""

    def __init__(self, processor: SpanProcessor, resource: Resource) -> None:
        self._processor = processor
        self._resource = resource

    def take(self, traceparent: str | None, body: bytes) -> None:
        """Of an attempt; a span of another trace than its own is left out."""
        parent = read_traceparent(traceparent)
        document = orjson.loads(body)
        if parent is not None and document["ids"][0] == parent.trace_id:
            self._processor.on_end(_read(document, self._resource))


def prepare() -> None:
    """In the process that jobs are forked from, once for all of them."""
    global _provider  # noqa: PLW0603 - one per process, and a fork has it too
    # What is loaded or made at first use is so here, and not in every job anew.
    Provider().get_tracer(__name__).start_span("none").end()
    if not spans.is_on():
        _provider = Provider()
        trace.set_tracer_provider(_provider)


def enter(job: ClaimedJob, send: Send) -> None:
    """In a job's process: from here on everything is part of its attempt."""
    attach(remote(job.traceparent) or unrecorded(job.job_id))
    if _provider is not None:
        _provider.send = send


def flush() -> None:
    """At the end of a job's process: what an exporter of the application's still holds is sent."""
    force = getattr(trace.get_tracer_provider(), "force_flush", None)
    if force is not None:
        force(_FLUSH_MS)


def receive_by(processor: SpanProcessor, resource: Resource) -> None:
    """In a worker, whose spans go there."""
    global _receiver  # noqa: PLW0603 - as above
    _receiver = Receiver(processor, resource)


def receive(traceparent: str | None, body: bytes) -> None:
    if _receiver is not None:
        _receiver.take(traceparent, body)


def _nowhere(_: bytes) -> None:
    """Where nobody listens."""


def _written(span: ReadableSpan) -> dict[str, Json]:
    scope = span.instrumentation_scope
    return {
        "ids": _ids(span.context),
        "parent": span.parent and _ids(span.parent),
        "name": span.name,
        "kind": span.kind.name,
        "start": span.start_time,
        "end": span.end_time,
        "attributes": dict(span.attributes or {}),
        "events": [
            [each.name, dict(each.attributes or {}), each.timestamp] for each in span.events
        ],
        "links": [_ids(each.context) for each in span.links],
        "status": [span.status.status_code.name, span.status.description],
        "scope": scope and [scope.name, scope.version],
    }


def _read(document: dict[str, Json], resource: Resource) -> ReadableSpan:
    events = [Event(name, _attributes(given), at) for name, given, at in document["events"]]
    links = [Link(_context(*ids), _attributes({})) for ids in document["links"]]
    code, description = document["status"]
    return ReadableSpan(
        redact(document["name"]),
        _context(*document["ids"]),
        document["parent"] and _context(*document["parent"]),
        resource,
        _attributes(document["attributes"]),
        _bounded(events),
        _bounded(links),
        SpanKind[document["kind"]],
        status=Status(StatusCode[code], description and redact(description)),
        start_time=int(document["start"]),
        end_time=int(document["end"]),
        instrumentation_scope=document["scope"] and InstrumentationScope(*document["scope"]),
    )


def _ids(context: SpanContext) -> tuple[str, str]:
    return f"{context.trace_id:032x}", f"{context.span_id:016x}"


def _context(trace_id: str, span_id: str) -> SpanContext:
    flags = TraceFlags(TraceFlags.SAMPLED)
    context = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=flags)
    if not context.is_valid:  # an exporter would fail by it, and lose others along with it
        raise ValueError("these are no ids of a span")
    return context


def _attributes(given: Mapping[str, Json]) -> BoundedAttributes:
    return BoundedAttributes(attributes=redact(given))


def _bounded(given: Sequence[Json]) -> "BoundedList[Json]":
    return BoundedList.from_seq(max(1, len(given)), given)
