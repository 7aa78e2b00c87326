"""Spans of the attempts that run in this worker, one for each.

An attempt's span is a child of the span that enqueued its job, so that one trace has everything
that resulted from a request, including retries and child jobs. It also has a link to that span,
which is how other tools recognize messages. An attempt of a job without a traceparent begins a new
trace.

Most light attempts succeed without any access to their span. No span object is created for them
(fast_exporter.py).
"""

import threading
from collections.abc import Callable, Mapping
from contextvars import Token
from functools import lru_cache
from random import random
from time import time_ns
from typing import Protocol
from uuid import UUID

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import INVALID_SPAN, Span, Tracer, get_current_span, set_span_in_context

from jobforge.errors import Json, LeaseLost
from jobforge.observability.tracing.lazy_span import LazySpan, start_span
from jobforge.observability.tracing.parent import EMPTY_CONTEXT, remote_context, unrecorded_context
from jobforge.observability.tracing.sampling import Sampling
from jobforge.observability.tracing.spans import mark_failed, traceparent_of
from jobforge.observability.tracing.traceparent import Traceparent, read_traceparent
from jobforge.redact import log_scope, redact_text
from jobforge.types.current_job import CURRENT_JOB
from jobforge.types.jobs import ClaimedJob, Outcome

_SUCCEEDED = Outcome.SUCCEEDED
_FAILURES = {Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CRASHED}
_LONGEST_MESSAGE = 1_000
_read = lru_cache(1_000)(read_traceparent)  # jobs that were enqueued together share it
_TRACEPARENT_INDEX = ClaimedJob._fields.index("traceparent")
(_CURRENT,) = set_span_in_context(INVALID_SPAN, EMPTY_CONTEXT)  # context key of the current span


class AttemptVerdict(Protocol):
    """Result of an attempt, as far as its span needs it."""

    @property
    def outcome(self) -> Outcome: ...

    @property
    def error(self) -> Mapping[str, Json] | None: ...


class AttemptSpans:
    """Spans of attempts. `decider` decides which attempts are recorded: Sampling, or a tracer.

    One attempt is current, from `begin` until `end` or `keep`.
    """

    _job: ClaimedJob | None = None
    _span: Span | None = None  # for a light attempt, created on first access
    _parent: Traceparent | None = None
    _began = 0
    _is_recorded = False

    def __init__(self, decider: Sampling | Tracer) -> None:
        self._sampler = decider
        self._fast_processor = decider.fast_processor if isinstance(decider, Sampling) else None
        self._kept: dict[tuple[UUID, int], Span] = {}
        self._light_context = _LightContext(self._find_span)
        self._entered: Context | None = None
        self._token: Token[Context] | None = None
        self._lock = threading.Lock()  # a handler may use threads

    def begin(self, job: ClaimedJob, *, is_light: bool = False) -> ClaimedJob:
        """Start an attempt's span and return the job with the span's traceparent.

        The span is the current span until the next `begin` or `leave`, and remains so for tasks
        that the run starts. A light attempt's job is used only by its own inline code, so it is
        returned unchanged, and only its span has the new traceparent.
        """
        decider = self._sampler
        if not isinstance(decider, Sampling):
            return self._begin_with_sdk(decider, job)
        self._job, self._span = job, None
        self._parent = parent = None if job.traceparent is None else _read(job.traceparent)
        self._is_recorded = is_recorded = (
            random() < decider.ratio if parent is None else parent.is_recorded  # noqa: S311 - sampling needs no secure random numbers
        )
        self._began = time_ns()
        if is_light:
            self._attach_context(self._light_context)
            return job
        span = self._make_span(job)
        self._attach_context(Context({_CURRENT: span}))
        return _with_span_traceparent(job, span) if is_recorded else job

    def leave(self) -> None:
        if self._token is not None:
            detach(self._token)
            self._token = self._entered = None

    def keep(self, job: ClaimedJob) -> None:
        """Keep the current attempt's span, because the attempt continues in the background."""
        with self._lock:
            if self._is_recorded:
                self._kept[job.job_id, job.lease] = self._span or self._make_span(job)
            self._job = None

    def end(self, job: ClaimedJob, verdict: AttemptVerdict | None) -> ClaimedJob:
        """End the current attempt's span; without a verdict, the attempt has lost its lease.

        Return the job with the traceparent for log lines about it.
        """
        self._job = None
        if not self._is_recorded:
            return job
        if self._span is None and self._fast_processor is not None and _is_success(verdict):
            self._fast_processor.put((job[:7], self._parent, None, self._began, time_ns()))
            return job
        return self._end(job, self._span or self._make_span(job), verdict)

    def end_kept(self, job: ClaimedJob, verdict: AttemptVerdict | None) -> ClaimedJob:
        """End the span of an attempt that was kept, like `end`."""
        span = self._kept.pop((job.job_id, job.lease), None)
        if span is None:
            return job
        return self._end(job, span, verdict)

    def _end(self, job: ClaimedJob, span: Span, verdict: AttemptVerdict | None) -> ClaimedJob:
        processor = self._fast_processor
        if (
            processor
            and _is_success(verdict)
            and isinstance(span, LazySpan)
            and span.close_if_untouched()
        ):
            processor.put((job[:7], span.parent, span.ids, span.started_ns, time_ns()))
            return job
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
        return _with_span_traceparent(job, span)

    def _begin_with_sdk(self, tracer: Tracer, job: ClaimedJob) -> ClaimedJob:
        span = start_span(tracer, job, job.traceparent)
        self._attach_context(set_span_in_context(span, EMPTY_CONTEXT))
        self._job, self._span, self._is_recorded = job, span, span.is_recording()
        return _with_span_traceparent(job, span) if self._is_recorded else job

    def _make_span(self, job: ClaimedJob) -> Span:
        """Create the span of the current attempt."""
        if not self._is_recorded or not isinstance(self._sampler, Sampling):
            self._span = _unrecorded_span(job)
        else:
            self._span = LazySpan(job, self._parent, self._sampler.span_starter, self._began)
        return self._span

    def _find_span(self) -> Span:
        """Return the span of the light attempt that the calling code belongs to."""
        job = CURRENT_JOB.get()
        if job is None:
            return INVALID_SPAN
        with self._lock:
            if job is self._job:
                return self._span or self._make_span(job)
            return self._kept.get((job.job_id, job.lease)) or _unrecorded_span(job)

    def _attach_context(self, context: Context) -> None:
        if context is self._entered:
            return
        token = attach(context)
        self._entered = context
        if self._token is None:  # to restore the context from before the first attempt
            self._token = token


class _LightContext(Context):
    """The context of all light attempts, which finds the attempt's span on access."""

    def __init__(self, find: Callable[[], Span]) -> None:
        self._find = find

    def get(self, key: str, default: object = None) -> object:
        return self._find() if key == _CURRENT else default

    def copy(self) -> dict[str, object]:
        return {_CURRENT: self._find()}


def _is_success(verdict: AttemptVerdict | None) -> bool:
    return verdict is not None and verdict.outcome is _SUCCEEDED


def _unrecorded_span(job: ClaimedJob) -> Span:
    return get_current_span(remote_context(job.traceparent) or unrecorded_context(job.job_id))


def _with_span_traceparent(job: ClaimedJob, span: Span) -> ClaimedJob:
    """Return the job with the span's traceparent, for its child jobs and its log lines."""
    fields = list(job)  # a hot path: _replace takes four times as long
    fields[_TRACEPARENT_INDEX] = (
        span.traceparent if isinstance(span, LazySpan) else traceparent_of(span)
    )
    return tuple.__new__(ClaimedJob, fields)
