"""Contexts whose current span is a span of another process, to be the parent of new spans."""

from collections.abc import Callable
from functools import lru_cache

from opentelemetry.context import Context
from opentelemetry.trace import (
    INVALID_SPAN_CONTEXT,
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)

from jobforge.observability.tracing.traceparent import read_traceparent
from jobforge.types.jobs import ClaimedJob

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


class RemoteAttemptSpan(NonRecordingSpan):
    """The span of the job that `find_job` returns, without its own data.

    One of them serves all jobs of a process: its SpanContext is created on access, because most
    jobs never use it. The trace ID of a job without a trace is the job's ID, as in its log lines.
    """

    def __init__(self, find_job: Callable[[], ClaimedJob | None]) -> None:
        self._find_job = find_job

    def get_span_context(self) -> SpanContext:
        job = self._find_job()
        if job is None:
            return INVALID_SPAN_CONTEXT
        context = remote_context(job.traceparent)
        if context:
            return get_current_span(context).get_span_context()
        trace_id = job.job_id.int
        return SpanContext(trace_id, trace_id & _LOW, is_remote=False)
