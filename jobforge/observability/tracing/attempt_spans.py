"""Spans of the attempts that run in this worker, one for each.

An attempt's span is a child of the span that enqueued its job, so that one trace has everything
that resulted from a request, including retries and child jobs. It also has a link to that span,
which is how other tools recognize messages. An attempt of a job without a traceparent begins a new
trace.
"""

from collections.abc import Mapping
from contextvars import Token
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    INVALID_SPAN,
    Link,
    Span,
    SpanKind,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from jobforge.errors import Json, LeaseLost
from jobforge.observability.tracing.parent import EMPTY_CONTEXT, RemoteAttemptSpan, remote_context
from jobforge.observability.tracing.spans import (
    mark_failed,
    messaging_attributes,
    traceparent_of,
)
from jobforge.redact import log_scope, redact_text
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob, Outcome

if TYPE_CHECKING:
    from jobforge.observability.tracing.sampling import ParentBasedSampling

_FAILURES = {Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CRASHED}
_LONGEST_MESSAGE = 1_000
# The context of all attempts that are not sampled.
_UNSAMPLED = set_span_in_context(RemoteAttemptSpan(CURRENT_JOB.get), EMPTY_CONTEXT)
_TRACEPARENT_INDEX = ClaimedJob._fields.index("traceparent")


class AttemptVerdict(Protocol):
    """Result of an attempt, as far as its span needs it."""

    @property
    def outcome(self) -> Outcome: ...

    @property
    def error(self) -> Mapping[str, Json] | None: ...


class AttemptSpans:
    """Spans of attempts. One attempt is current, from `begin` until `end` or `keep`."""

    def __init__(self, tracer: Tracer, sampling: "ParentBasedSampling | None" = None) -> None:
        """Without `sampling`, the SDK decides which attempts are sampled."""
        self._tracer = tracer
        self._sampling = sampling
        self._span: Span = INVALID_SPAN  # of the current attempt
        self._kept: dict[tuple[UUID, int], Span] = {}
        self._entered: Context | None = None
        self._token: Token[Context] | None = None

    def begin(self, job: ClaimedJob) -> ClaimedJob:
        """Start an attempt's span and return the job with the span's traceparent.

        The span is the current span until the next `begin` or `leave`, and remains so for tasks
        that the run starts.
        """
        sampling = self._sampling
        if sampling is not None and not sampling.is_sampled(job.traceparent):
            self._span = INVALID_SPAN
            self._enter(_UNSAMPLED)
            return job
        self._span = span = _start_span(self._tracer, job)
        if not span.is_recording():
            self._enter(_UNSAMPLED)
            return job
        self._enter(set_span_in_context(span, EMPTY_CONTEXT))
        return _with_span_traceparent(job, span)

    def leave(self) -> None:
        if self._token is not None:
            detach(self._token)
            self._token = self._entered = None

    def keep(self, job: ClaimedJob) -> None:
        """Keep the current attempt's span, because the attempt continues in the background."""
        if self._span.is_recording():
            self._kept[job.job_id, job.lease] = self._span

    def end(self, verdict: AttemptVerdict | None) -> None:
        """End the current attempt's span; without a verdict, the attempt has lost its lease."""
        _end_span(self._span, verdict)

    def end_kept(self, job: ClaimedJob, verdict: AttemptVerdict | None) -> None:
        """End the span of an attempt that was kept, like `end`."""
        _end_span(self._kept.pop((job.job_id, job.lease), INVALID_SPAN), verdict)

    def _enter(self, context: Context) -> None:
        if context is self._entered:
            return
        token = attach(context)
        self._entered = context
        if self._token is None:  # to restore the context from before the first attempt
            self._token = token


def _start_span(tracer: Tracer, job: ClaimedJob) -> Span:
    context = remote_context(job.traceparent)
    enqueued = get_current_span(context).get_span_context()
    span = tracer.start_span(
        f"run {job.definition}",
        context,
        SpanKind.CONSUMER,
        messaging_attributes("run", "process", job.definition),
        [Link(enqueued)] if enqueued.is_valid else None,
    )
    if span.is_recording():
        span.set_attributes(
            {
                "messaging.message.id": str(job.job_id),
                "jobforge.definition": f"{job.definition}@{job.version}",
                "jobforge.queue": job.queue,
                "jobforge.tenant.id": str(job.tenant_id),
                "jobforge.attempt": job.attempt,
                "jobforge.lease": job.lease,
            }
        )
    return span


def _end_span(span: Span, verdict: AttemptVerdict | None) -> None:
    if not span.is_recording():
        return
    outcome = "lost" if verdict is None else verdict.outcome
    span.set_attribute("jobforge.outcome", outcome)
    if verdict is None:
        mark_failed(span, LeaseLost.__name__)
    elif outcome in _FAILURES:
        error = verdict.error or {}
        # Redact before cutting: half of a secret would not be recognized.
        message = redact_text(str(error.get("message", "")), log_scope())[:_LONGEST_MESSAGE]
        mark_failed(span, str(error.get("code") or error.get("type") or outcome), message)
    span.end()


def _with_span_traceparent(job: ClaimedJob, span: Span) -> ClaimedJob:
    """Return the job with the span's traceparent, for its child jobs and its log lines."""
    fields = list(job)  # a hot path: _replace takes four times as long
    fields[_TRACEPARENT_INDEX] = traceparent_of(span)
    return tuple.__new__(ClaimedJob, fields)
