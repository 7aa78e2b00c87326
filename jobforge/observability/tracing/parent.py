"""Contexts whose current span is a span of another process, to be the parent of new spans."""

from functools import lru_cache
from uuid import UUID

from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    set_span_in_context,
)

from jobforge.observability.tracing.traceparent import read_traceparent

EMPTY_CONTEXT = Context()
_LOW = 2**64 - 1


@lru_cache(maxsize=1_000)  # jobs that were enqueued together share it
def remote_context(traceparent: str | None) -> Context:
    """Return a context that has only this remote span."""
    parent = read_traceparent(traceparent)
    if parent is None:
        return EMPTY_CONTEXT
    trace_id, span_id, flags = (int(part, 16) for part in parent)
    span = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return set_span_in_context(NonRecordingSpan(span), EMPTY_CONTEXT)


def unrecorded_context(job_id: UUID) -> Context:
    """Return a context for an unsampled attempt of a job without a traceparent."""
    return set_span_in_context(_UnrecordedSpan(job_id), EMPTY_CONTEXT)


class _UnrecordedSpan(NonRecordingSpan):
    """An unsampled span whose trace ID is the job ID, as in the job's log lines.

    Its SpanContext is created on access, because most jobs never use it.
    """

    def __init__(self, job_id: UUID) -> None:
        self._job_id = job_id

    def get_span_context(self) -> SpanContext:
        trace_id = self._job_id.int
        return SpanContext(trace_id, trace_id & _LOW, is_remote=False)
