"""The spans of the attempts that run in this worker: one for each, from its start to its end.

An attempt is a child of the span that enqueued its job, so that one trace has all that came of a
request, its retries and the jobs that jobs make too; and it is linked to that span, which is how
others tell a message from a call. A job that came without a trace begins one with each attempt.
"""

from collections.abc import Mapping
from contextvars import Token
from functools import lru_cache
from random import random
from uuid import UUID

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import INVALID_SPAN, Span, Tracer, set_span_in_context

from jobforge.errors import Json, LeaseLost
from jobforge.job import ClaimedJob, Outcome
from jobforge.redact import redact_text
from jobforge.tracing.parent import NOWHERE, remote, unrecorded
from jobforge.tracing.plain import Plain, start_span
from jobforge.tracing.sampling import Sampling
from jobforge.tracing.spans import fail, traceparent_of
from jobforge.tracing.traceparent import read_traceparent

_SUCCEEDED = Outcome.SUCCEEDED
_FAILURES = {Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CRASHED}
_LONGEST_MESSAGE = 1_000
_read = lru_cache(1_000)(read_traceparent)  # jobs that were enqueued together have the same
(_CURRENT,) = set_span_in_context(INVALID_SPAN, NOWHERE)  # the name of the span in a context

Begun = tuple[ClaimedJob, Span | None]


class Attempts:
    """What is recorded, our own sampling knows, or else another's tracer is asked."""

    def __init__(self, decider: Sampling | Tracer) -> None:
        self._decider = decider
        self._outlet = decider.outlet if isinstance(decider, Sampling) else None
        self._running: dict[tuple[UUID, int], Span] = {}
        self._ended: list[Plain] = []
        self._token: Token[Context] | None = None

    def begin(self, job: ClaimedJob, *, is_light: bool = False) -> Begun:
        """The job as it runs in its trace, and its span if that is recorded.

        Until the next one, or `leave`, it is current, and so it stays for all that the run begins
        with. Of a light one its span alone knows the traceparent, as long as all goes well.
        """
        decider = self._decider
        if not isinstance(decider, Sampling):
            return self._begin_asked(decider, job)
        parent = None if job.traceparent is None else _read(job.traceparent)
        if not (random() < decider.share if parent is None else parent.is_recorded):  # noqa: S311 - no secret
            self._enter(remote(job.traceparent) or unrecorded(job.job_id))
            return job, None
        plain = Plain(job, parent, decider.opener)
        self._enter(Context({_CURRENT: plain}))
        return (job if is_light else _named(job, plain)), plain

    def leave(self) -> None:
        if self._token is not None:
            detach(self._token)
            self._token = None
        self.send()

    def send(self) -> None:
        """Those that have ended plainly: together they take a fraction of the time."""
        if self._outlet is not None and self._ended:
            self._outlet.put(self._ended)
            self._ended = []

    def keep(self, job: ClaimedJob, span: Span) -> None:
        """Until its run ends."""
        self._running[job.job_id, job.lease] = span

    def take(self, job: ClaimedJob) -> Span | None:
        """What was kept."""
        return self._running.pop((job.job_id, job.lease), None)

    def end(
        self, job: ClaimedJob, span: Span, outcome: Outcome, error: Mapping[str, Json] | None
    ) -> ClaimedJob:
        """Answers the job as others may speak of it."""
        if outcome is _SUCCEEDED and self._outlet and isinstance(span, Plain) and span.close():
            self._ended.append(span)
            return job
        span.set_attribute("jobforge.outcome", outcome)
        if outcome in _FAILURES:
            told = error or {}
            # Redacted before it is cut: half a secret would not be known as one.
            message = redact_text(str(told.get("message", "")))[:_LONGEST_MESSAGE]
            fail(span, str(told.get("code") or told.get("type") or outcome), message)
        span.end()
        return _named(job, span)

    def lose(self, job: ClaimedJob, span: Span) -> ClaimedJob:
        """It is somebody else's by now. Answers as `end`."""
        span.set_attribute("jobforge.outcome", "lost")
        fail(span, LeaseLost.__name__)
        span.end()
        return _named(job, span)

    def _begin_asked(self, tracer: Tracer, job: ClaimedJob) -> Begun:
        span = start_span(tracer, job, job.traceparent)
        self._enter(set_span_in_context(span, NOWHERE))
        if not span.is_recording():
            return job, None
        return _named(job, span), span

    def _enter(self, context: Context) -> None:
        token = attach(context)
        if self._token is None:  # what was before the first
            self._token = token


def _named(job: ClaimedJob, span: Span) -> ClaimedJob:
    """Whatever the job passes on, and every line about it, is of this attempt."""
    return job._replace(traceparent=traceparent_of(span))
