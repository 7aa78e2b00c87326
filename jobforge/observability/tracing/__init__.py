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
    Around,
    answered,
    calling,
    carrying,
    current,
    enqueuing,
    is_on,
    routed,
    serving,
    stepping,
    traceparent_of,
    tracer,
    use,
)
from jobforge.observability.tracing.traceparent import Traceparent, read_traceparent
from jobforge.types.jobs import ClaimedJob

if TYPE_CHECKING:
    from jobforge.observability.tracing.attempt_spans import Attempts

__all__ = [
    "Around",
    "Traceparent",
    "answered",
    "calling",
    "carrying",
    "current",
    "enqueuing",
    "enter_job",
    "find_attempts",
    "flush_job",
    "is_on",
    "prepare_jobs",
    "read_traceparent",
    "receive_span",
    "routed",
    "serving",
    "stepping",
    "traceparent_of",
    "use",
]


_within: ModuleType | None = None  # where jobs are traced


def find_attempts() -> "Attempts | None":
    """What makes the spans of a worker's attempts; None where nobody traces."""
    made = tracer()
    if made is None:
        return None
    from jobforge.observability.tracing.attempt_spans import Attempts  # noqa: PLC0415 - as above
    from jobforge.observability.tracing.setup import sampling_of_attempts  # noqa: PLC0415 - as above

    return Attempts(sampling_of_attempts() or made)


def prepare_jobs() -> None:
    """In the process that jobs are forked from, when their worker traces."""
    global _within  # noqa: PLW0603 - one per process, and a fork has it too
    from jobforge.observability.tracing import child_tracer  # noqa: PLC0415 - as above

    child_tracer.prepare()
    _within = child_tracer


def enter_job(job: ClaimedJob, send: Callable[[bytes], None]) -> None:
    """In a job's process: from here on all is part of its attempt, and ended spans are sent."""
    if _within is not None:
        _within.enter(job, send)


def flush_job() -> None:
    """At the end of a job's process."""
    if _within is not None:
        _within.flush()


def receive_span(traceparent: str | None, body: bytes) -> None:
    """In a worker: what a job's process has sent; of an attempt with this traceparent."""
    if is_on():
        from jobforge.observability.tracing import child_spans  # noqa: PLC0415 - as above

        child_spans.receive(traceparent, body)
