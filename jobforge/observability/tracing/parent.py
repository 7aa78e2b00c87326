"""A span of another process, as the parent of what is made in this one."""

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


@lru_cache(maxsize=1_000)  # jobs that were enqueued together have the same
def remote_context(traceparent: str | None) -> Context:
    """A context in which that span is current, and nothing else."""
    parent = read_traceparent(traceparent)
    if parent is None:
        return EMPTY_CONTEXT
    trace_id, span_id, flags = (int(part, 16) for part in parent)
    span = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return set_span_in_context(NonRecordingSpan(span), EMPTY_CONTEXT)


def unrecorded_context(job_id: UUID) -> Context:
    """A context for a job that came without a trace, and whose attempt is not recorded."""
    return set_span_in_context(_UnrecordedSpan(job_id), EMPTY_CONTEXT)


class _UnrecordedSpan(NonRecordingSpan):
    """Passes on that nothing is recorded, in a trace that is named as the job's log lines are.

    Most jobs never ask for that, so it is made when one does.
    """

    def __init__(self, job_id: UUID) -> None:
        self._job_id = job_id

    def get_span_context(self) -> SpanContext:
        trace_id = self._job_id.int
        return SpanContext(trace_id, trace_id & _LOW, is_remote=False)
