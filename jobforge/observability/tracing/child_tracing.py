"""Tracing in a job's process: its attempt's span is current, and its spans are sent to the worker.

A job's process is short-lived and has neither the exporter's endpoint nor its credentials. Setting
up an exporter in each process would take longer than most jobs, and spans that were not exported by
its end would be lost. If the application sets up OpenTelemetry itself, its provider exists in that
process too and exports the spans.
"""

from collections.abc import Callable

from opentelemetry import trace
from opentelemetry.context import attach
from opentelemetry.trace import NoOpTracer, Tracer, set_span_in_context
from opentelemetry.util.types import Attributes

from jobforge.observability.tracing import spans
from jobforge.observability.tracing.parent import (
    EMPTY_CONTEXT,
    RemoteAttemptSpan,
    remote_context,
)
from jobforge.types.jobs import ClaimedJob

Send = Callable[[bytes], None]

_FLUSH_MS = 5_000
_WARMUP_RUNS = 16  # Python specializes code after eight runs
_SAMPLED = "00-00000000000000000000000000000001-0000000000000001-01"
_job: ClaimedJob | None = None
_attempt = RemoteAttemptSpan(lambda: _job)
_provider: "ChildTracerProvider | None" = None


def prepare() -> None:
    """Set up tracing once in the process that jobs are forked from.

    The attempt's span is the current span before the fork, so that a forked process only has to set
    its job.
    """
    global _provider  # noqa: PLW0603 - one per process, inherited by forks
    attach(set_span_in_context(_attempt, EMPTY_CONTEXT))
    if not spans.is_enabled():
        _warm_up_sdk()
        _provider = ChildTracerProvider()
        trace.set_tracer_provider(_provider)


def enter(job: ClaimedJob, send: Send) -> None:
    """Make the attempt's span current, and send finished spans with `send`."""
    global _job  # noqa: PLW0603 - the process as a whole runs one job
    _job = job
    if _provider is not None:
        _provider.send = send


def flush() -> None:
    """Flush the application's own exporter at the end of a job's process."""
    if _provider is not None:
        return
    force = getattr(trace.get_tracer_provider(), "force_flush", None)
    if force is not None:
        force(_FLUSH_MS)


def _warm_up_sdk() -> None:
    """Import the SDK and create spans with it, which otherwise each job with spans would do.

    The import alone takes 80 ms. Without the spans, a job's first span takes 2 instead of 1 ms.
    """
    from jobforge.observability.tracing.span_transfer import create_provider  # noqa: PLC0415 - only if the app has no provider

    tracer = create_provider(_discard).get_tracer(spans.TRACER_NAME)
    for _ in range(_WARMUP_RUNS):
        tracer.start_span("", remote_context(_SAMPLED)).end()


def _discard(_: bytes) -> None:
    """Drop the span."""


class ChildTracerProvider(trace.TracerProvider):
    """Creates the SDK's provider when a job asks for its first tracer.

    Most jobs create no span. The SDK's provider takes 0.5 ms in a new fork. In the zygote, it would
    register a fork hook, which takes 3 ms of each fork.
    """

    def __init__(self) -> None:
        self.send: Send | None = None
        self._sdk_provider: trace.TracerProvider | None = None

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: Attributes = None,
    ) -> Tracer:
        if self.send is None or not _attempt.get_span_context().trace_flags.sampled:
            return NoOpTracer()
        if self._sdk_provider is None:
            from jobforge.observability.tracing.span_transfer import create_provider  # noqa: PLC0415 - it imports the SDK

            self._sdk_provider = create_provider(self.send)
        return self._sdk_provider.get_tracer(
            instrumenting_module_name, instrumenting_library_version, schema_url, attributes
        )
