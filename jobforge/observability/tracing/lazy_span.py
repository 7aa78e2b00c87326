"""An attempt's span that holds only its IDs and start time until other code uses it.

Most attempts succeed, and nothing is added to their spans. Creating an SDK span takes longer than
running such an attempt, and encoding it takes twice as long again. So the SDK span is created on
first use, with the IDs that this span had from the start. An attempt without an SDK span takes a
faster path to the collector (otlp_template.py).
"""

import threading
from collections.abc import Mapping
from random import randbytes

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    get_current_span,
)
from opentelemetry.util.types import Attributes, AttributeValue

from jobforge.observability.tracing.parent import remote_context
from jobforge.observability.tracing.spans import TRACER_NAME
from jobforge.observability.tracing.traceparent import Traceparent
from jobforge.types.jobs import ClaimedJob


class LazySpan(Span):
    """`ids` has the trace ID followed by the span ID."""

    _sdk_span: Span | None = None
    _context: SpanContext | None = None

    def __init__(
        self,
        job: ClaimedJob,
        parent: Traceparent | None,
        starter: "SdkSpanStarter",
        started_ns: int,
    ) -> None:
        self.job = job
        self.parent = parent
        self.started_ns = started_ns
        (self.ids,) = generate_ids(parent)
        self._starter = starter

    @property
    def traceparent(self) -> str:
        if self.parent is None:
            return f"00-{self.ids.hex('-', -16)}-03"  # sampled and random
        return self.parent.child(self.ids[16:].hex())

    def materialize(self) -> Span:
        """Return the SDK span, creating it on first use; from then on it is the span."""
        with self._starter.lock:  # several threads of a handler may use it
            if self._sdk_span is None:
                self._sdk_span = self._starter.start_from(self)
        return self._sdk_span

    def close_if_untouched(self) -> bool:
        """Reject further changes and return True; return False if the SDK span exists."""
        if self._sdk_span is not None:
            return False
        self._sdk_span = INVALID_SPAN
        return True

    def get_span_context(self) -> SpanContext:
        if self._context is None:
            flags = TraceFlags(int(self.traceparent[-2:], 16))
            self._context = SpanContext(*_split_ids(self.ids), is_remote=False, trace_flags=flags)
        return self._context

    def is_recording(self) -> bool:
        return self._sdk_span is None or self._sdk_span.is_recording()

    def end(self, end_time: int | None = None) -> None:
        self.materialize().end(end_time)

    def set_attributes(self, attributes: Mapping[str, AttributeValue]) -> None:
        self.materialize().set_attributes(attributes)

    def set_attribute(self, key: str, value: AttributeValue) -> None:
        self.materialize().set_attribute(key, value)

    def add_event(
        self, name: str, attributes: Attributes = None, timestamp: int | None = None
    ) -> None:
        self.materialize().add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: Attributes = None) -> None:
        self.materialize().add_link(context, attributes)

    def update_name(self, name: str) -> None:
        self.materialize().update_name(name)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        self.materialize().set_status(status, description)

    def record_exception(
        self,
        exception: BaseException,
        attributes: Attributes = None,
        timestamp: int | None = None,
        escaped: bool = False,  # noqa: FBT001, FBT002 - OpenTelemetry's signature
    ) -> None:
        self.materialize().record_exception(exception, attributes, timestamp, escaped)


class SdkSpanStarter:
    """Starts SDK spans with given IDs; all of them are sampled."""

    def __init__(self, resource: Resource, processor: SpanProcessor | None = None) -> None:
        self._ids = _PresetIdGenerator()
        provider = TracerProvider(
            ALWAYS_ON, resource, shutdown_on_exit=False, id_generator=self._ids
        )
        if processor is not None:
            provider.add_span_processor(processor)
        self._tracer = provider.get_tracer(TRACER_NAME)
        self.lock = threading.Lock()

    def start_from(self, plain: LazySpan) -> Span:
        """Start the SDK span of `plain`. Call with the lock held."""
        self._ids.ids = plain.ids
        return start_span(
            self._tracer, plain.job, plain.parent and str(plain.parent), plain.started_ns
        )


def generate_ids(*parents: Traceparent | None) -> list[bytes]:
    """Return trace and span IDs for children of these parents; None begins a new trace."""
    random_bytes = randbytes(24 * len(parents))  # noqa: S311 - IDs need no secure random numbers
    return [
        random_bytes[offset : offset + 24]
        if parent is None
        else bytes.fromhex(parent.trace_id) + random_bytes[offset : offset + 8]
        for offset, parent in zip(range(0, len(random_bytes), 24), parents, strict=True)
    ]


def start_span(
    tracer: Tracer, job: ClaimedJob, parent: str | None, started_ns: int | None = None
) -> Span:
    """Start an attempt's SDK span under `parent`; default of `started_ns`: the current time."""
    context = remote_context(parent)
    enqueued = get_current_span(context).get_span_context()
    return tracer.start_span(
        f"run {job.definition}",
        context,
        SpanKind.CONSUMER,
        {
            "messaging.system": "jobforge",
            "messaging.operation.type": "process",
            "jobforge.job.id": str(job.job_id),
            "jobforge.definition": f"{job.definition}@{job.version}",
            "jobforge.queue": job.queue,
            "jobforge.tenant.id": str(job.tenant_id),
            "jobforge.attempt": job.attempt,
            "jobforge.lease": job.lease,
        },
        [Link(enqueued)] if enqueued.is_valid else None,
        started_ns,
    )


class _PresetIdGenerator(IdGenerator):
    ids = bytes(24)

    def generate_trace_id(self) -> int:
        return _split_ids(self.ids)[0]

    def generate_span_id(self) -> int:
        return _split_ids(self.ids)[1]

    def is_trace_id_random(self) -> bool:
        return True


def _split_ids(ids: bytes) -> tuple[int, int]:
    return int.from_bytes(ids[:16], "big"), int.from_bytes(ids[16:], "big")
