"""Traces: the work of processes and jobs as OpenTelemetry spans (`jobforge[otel]`).

The enqueuer passes a `traceparent` on (traceparent.py), and the job's attempts are child spans of
it (attempt_spans.py). Other spans enclose enqueuing, steps, and incoming and outgoing requests
(spans.py). Spans created in a job's process (child_tracing.py) are sent to its worker
(span_transfer.py). The environment (setup.py) or the application configures the exporter.

If OpenTelemetry is not set up, nothing of it is imported, and all functions do nothing. Modules
that require it, attempt_spans.py, child_tracing.py and span_transfer.py, are imported only if it
is set up; setup.py only by the programs that set it up.
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
    record_enqueued,
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
    "record_enqueued",
    "record_route",
    "record_status",
    "server_span",
    "step_span",
    "traceparent_of",
    "use_provider",
]


_child_tracing: ModuleType | None = None  # set if the worker traces its jobs


def create_attempt_spans() -> "AttemptSpans | None":
    """Return the spans of a worker's attempts; None if OpenTelemetry is not set up."""
    tracer = get_tracer()
    if tracer is None:
        return None
    from jobforge.observability.tracing.attempt_spans import AttemptSpans  # noqa: PLC0415 - only if OpenTelemetry is set up
    from jobforge.observability.tracing.setup import get_sampling  # noqa: PLC0415 - only if OpenTelemetry is set up

    return AttemptSpans(tracer, get_sampling())


def prepare_child_tracing() -> None:
    """Prepare the process that jobs are forked from, if their worker traces."""
    global _child_tracing  # noqa: PLW0603 - one per process, inherited by forks
    from jobforge.observability.tracing import child_tracing  # noqa: PLC0415 - only if OpenTelemetry is set up

    child_tracing.prepare()
    _child_tracing = child_tracing


def enter_job(job: ClaimedJob, send: Callable[[bytes], None]) -> None:
    """Trace a job's process as part of its attempt, and send its finished spans with `send`."""
    if _child_tracing is not None:
        _child_tracing.enter(job, send)


def flush_job() -> None:
    """Flush the application's exporter at the end of a job's process."""
    if _child_tracing is not None:
        _child_tracing.flush()


def receive_span(traceparent: str | None, body: bytes) -> None:
    """Receive a span from a job's process, in the worker; `traceparent` is the attempt's."""
    if is_enabled():
        from jobforge.observability.tracing import span_transfer  # noqa: PLC0415 - only if OpenTelemetry is set up

        span_transfer.receive_span(traceparent, body)
