"""Traces: what a process and its jobs do, as spans of OpenTelemetry (`jobforge[otel]`).

Whoever enqueues passes on a `traceparent` (traceparent.py), and the attempts of the job are spans
under it (attempt_spans.py). Others stand around pieces of work: enqueuing, steps, requests that
come and go (spans.py). What jobs make in processes of their own (child_tracer.py) comes to their
worker (child_spans.py); where all of it is sent, the environment says (setup.py), or the
application.

Where nobody has set up OpenTelemetry, nothing of it is imported and nothing is done here. What
cannot do without it, attempt_spans.py, child_tracer.py and child_spans.py, is imported only where
somebody has; setup.py, only by the programs that set it up.
"""

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from jobforge.observability.tracing.spans import (
    SpanContextManager,
    attach_traceparent,
    client_span,
    current_traceparent,
    enqueue_span,
    get_tracer,
    is_enabled,
    record_route,
    record_status,
    server_span,
    step_span,
    traceparent_of,
    use_provider,
)
from jobforge.observability.tracing.traceparent import Traceparent, read_traceparent
from jobforge.types.jobs import ClaimedJob

if TYPE_CHECKING:
    from jobforge.observability.tracing.attempt_spans import AttemptSpans

__all__ = [
    "SpanContextManager",
    "Traceparent",
    "attach_traceparent",
    "client_span",
    "create_attempt_spans",
    "current_traceparent",
    "enqueue_span",
    "enter_job",
    "flush_job",
    "is_enabled",
    "prepare_child_tracing",
    "read_traceparent",
    "receive_span",
    "record_route",
    "record_status",
    "server_span",
    "step_span",
    "traceparent_of",
    "use_provider",
]


_child_tracer: ModuleType | None = None  # where jobs are traced


def create_attempt_spans() -> "AttemptSpans | None":
    """What makes the spans of a worker's attempts; None where nobody traces."""
    made = get_tracer()
    if made is None:
        return None
    from jobforge.observability.tracing.attempt_spans import AttemptSpans  # noqa: PLC0415 - as above
    from jobforge.observability.tracing.setup import get_attempt_sampling  # noqa: PLC0415 - as above

    return AttemptSpans(get_attempt_sampling() or made)


def prepare_child_tracing() -> None:
    """In the process that jobs are forked from, when their worker traces."""
    global _child_tracer  # noqa: PLW0603 - one per process, and a fork has it too
    from jobforge.observability.tracing import child_tracer  # noqa: PLC0415 - as above

    child_tracer.prepare()
    _child_tracer = child_tracer


def enter_job(job: ClaimedJob, send: Callable[[bytes], None]) -> None:
    """In a job's process: from here on all is part of its attempt, and ended spans are sent."""
    if _child_tracer is not None:
        _child_tracer.enter(job, send)


def flush_job() -> None:
    """At the end of a job's process."""
    if _child_tracer is not None:
        _child_tracer.flush()


def receive_span(traceparent: str | None, body: bytes) -> None:
    """In a worker: what a job's process has sent; of an attempt with this traceparent."""
    if is_enabled():
        from jobforge.observability.tracing import child_spans  # noqa: PLC0415 - as above

        child_spans.receive_span(traceparent, body)
