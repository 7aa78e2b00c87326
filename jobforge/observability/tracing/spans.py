"""Spans around units of work in this process, and passing their traceparent on.

They use the process's OpenTelemetry provider. Exceptions are recorded by type only: messages and
tracebacks belong in the log, which redacts them.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from jobforge.observability.tracing.traceparent import Traceparent
from jobforge.types.jobs import Enqueued, JobRequest, UniformJobs

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer, TracerProvider

Attributes = dict[str, str | int]
SpanContextManager = AbstractContextManager["Span | None"]

TRACER_NAME = "jobforge"
_TRACEPARENT_INDEX = JobRequest._fields.index("traceparent")
_tracer: "Tracer | None" = None


def use_provider(provider: "TracerProvider | None") -> None:
    """Use this provider for spans instead of the process's global one; None resets that."""
    global _tracer  # noqa: PLW0603 - one per process, like OpenTelemetry's provider
    _tracer = None if provider is None else provider.get_tracer(TRACER_NAME)


def get_tracer() -> "Tracer | None":
    """Return the tracer; None if OpenTelemetry is not set up."""
    global _tracer  # noqa: PLW0603 - one per process, like OpenTelemetry's provider
    if _tracer is None:
        provider = _find_provider()
        _tracer = None if provider is None else provider.get_tracer(TRACER_NAME)
    return _tracer


def is_enabled() -> bool:
    return _tracer is not None or _find_provider() is not None


def current_traceparent() -> str | None:
    """Return the traceparent of the current span."""
    api = sys.modules.get("opentelemetry.trace")
    return None if api is None else traceparent_of(api.get_current_span())


def traceparent_of(span: "Span") -> str | None:
    context = span.get_span_context()
    if not context.is_valid:
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def attach_traceparent(jobs: Sequence[JobRequest]) -> Sequence[JobRequest]:
    """Return the jobs with the current span's traceparent, unless they have one."""
    traceparent = current_traceparent()
    if traceparent is None:
        return jobs
    if isinstance(jobs, UniformJobs):
        return UniformJobs(_with_traceparent(jobs.template, traceparent), jobs.payloads)
    return [_with_traceparent(job, traceparent) for job in jobs]


def enqueue_span(jobs: Sequence[JobRequest]) -> AbstractContextManager[Sequence[JobRequest]]:
    """Open a span for enqueuing, and yield the jobs as its children."""
    if not jobs or get_tracer() is None:
        return nullcontext(jobs)
    return _open_enqueue_span(jobs)


def record_enqueued(jobs: Sequence[JobRequest], enqueued: Iterable[Enqueued]) -> Iterable[Enqueued]:
    """Return the results of these jobs; record the ID of a single job on the enqueue span."""
    if len(jobs) != 1 or get_tracer() is None:
        return enqueued
    from opentelemetry.trace import get_current_span  # noqa: PLC0415 - OpenTelemetry is optional

    (result,) = enqueued
    get_current_span().set_attribute("messaging.message.id", str(result.job_id))
    return (result,)


def step_span(name: str, index: int) -> SpanContextManager:
    """Open a span for a job's step, until the step is stored."""
    return _span_or_nothing(
        f"step {name}", {"jobforge.step.name": name, "jobforge.step.index": index}
    )


def client_span(method: str, host: str, port: int) -> SpanContextManager:
    """Open a span for an outgoing request."""
    attributes: Attributes = {
        "http.request.method": method,
        "server.address": host,
        "server.port": port,
    }
    return _span_or_nothing(method, attributes, "CLIENT")


def server_span(method: str, parent: Traceparent | None) -> SpanContextManager:
    """Open a span for an incoming request, under its traceparent if it has one."""
    return _span_or_nothing(method, {"http.request.method": method}, "SERVER", parent)


def record_status(span: "Span | None", status: int, *, min_error_status: int = 500) -> None:
    """Record the response's status; a status of `min_error_status` or more marks an error."""
    if span is None:
        return
    span.set_attribute("http.response.status_code", status)
    if status >= min_error_status:
        mark_failed(span, str(status))


def record_route(span: "Span | None", method: str, route: str) -> None:
    """Rename the span of a request to its route."""
    if span is not None:
        span.update_name(f"{method} {route}")
        span.set_attribute("http.route", route)


def messaging_attributes(name: str, kind: str, definition: str) -> Attributes:
    """Return the attributes that the semantic conventions for messaging require of an operation.

    A span is named after its operation and its destination, which is the definition: queues do not
    have to be known when a job is enqueued.
    """
    return {
        "messaging.system": "jobforge",
        "messaging.operation.name": name,
        "messaging.operation.type": kind,
        "messaging.destination.name": definition,
    }


def mark_failed(span: "Span", kind: str, message: str | None = None) -> None:
    from opentelemetry.trace import StatusCode  # noqa: PLC0415 - OpenTelemetry is optional

    span.set_attribute("error.type", kind)
    span.set_status(StatusCode.ERROR, message)


def _find_provider() -> "TracerProvider | None":
    """Return the process's global provider, which can be set once."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return None
    provider: TracerProvider = api.get_tracer_provider()
    return None if isinstance(provider, api.ProxyTracerProvider) else provider


@contextmanager
def _open_enqueue_span(jobs: Sequence[JobRequest]) -> Iterator[Sequence[JobRequest]]:
    definition = jobs[0].definition
    attributes = messaging_attributes("enqueue", "send", definition)
    if len(jobs) > 1:
        attributes["messaging.batch.message_count"] = len(jobs)
    with _span_or_nothing(f"enqueue {definition}", attributes, "PRODUCER"):
        yield attach_traceparent(jobs)


def _span_or_nothing(
    name: str,
    attributes: Attributes,
    kind: str = "INTERNAL",
    parent: Traceparent | None = None,
) -> SpanContextManager:
    """Open a span if OpenTelemetry is set up; default parent: the current span."""
    tracer = get_tracer()
    return nullcontext() if tracer is None else _open_span(tracer, name, attributes, kind, parent)


@contextmanager
def _open_span(
    tracer: "Tracer", name: str, attributes: Attributes, kind: str, parent: Traceparent | None
) -> Iterator["Span"]:
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - OpenTelemetry is optional

    from jobforge.observability.tracing.parent import remote_context  # noqa: PLC0415 - OpenTelemetry is optional

    with tracer.start_as_current_span(
        name,
        None if parent is None else remote_context(str(parent)),
        SpanKind[kind],
        attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except Exception as error:
            mark_failed(span, type(error).__name__)
            raise


def _with_traceparent(job: JobRequest, traceparent: str) -> JobRequest:
    if job.traceparent is not None:
        return job
    # A hot path: _replace takes several times as long.
    return JobRequest._make(
        (*job[:_TRACEPARENT_INDEX], traceparent, *job[_TRACEPARENT_INDEX + 1 :])
    )
