"""The spans of the attempts that run in this worker: one for each, from its start to its end.

An attempt is a child of the span that enqueued its job, so that one trace has all that came of a
request, its retries and the jobs that jobs make too; and it is linked to that span, which is how
others tell a message from a call. A job that came without a trace begins one with each attempt.
"""

import random
from collections.abc import Mapping
from contextvars import Token
from uuid import UUID

from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import (
    Span,
    SpanKind,
    get_current_span,
    set_span_in_context,
)

from jobforge.errors import Json, LeaseLost
from jobforge.job import ClaimedJob, Outcome
from jobforge.redact import redact_text
from jobforge.tracing.parent import is_recorded, remote, unrecorded
from jobforge.tracing.sampling import Sampling
from jobforge.tracing.spans import fail, get_tracer, traceparent_of

_FAILURES = {Outcome.FAILED, Outcome.TIMED_OUT, Outcome.CRASHED}
_LONGEST_MESSAGE = 1_000


class Attempts:
    """Jobs are started one after the other, so one at most is between `begin` and `leave`."""

    def __init__(self, sampling: Sampling | None) -> None:
        self._sampling = sampling
        self._tracer = get_tracer() if sampling is None else sampling.tracer
        self._open: dict[tuple[UUID, int], Span] = {}
        self._token: Token[Context] | None = None

    def begin(self, job: ClaimedJob) -> ClaimedJob:
        """The job as it runs in its trace.

        Until `leave`, its span is current, and so it stays for all that the run begins with.
        """
        parent = remote(job.traceparent)
        if self._sampling is not None and _is_left_out(parent, self._sampling.share):
            self._token = attach(parent or unrecorded(job.job_id))
            return job
        span = self._tracer.start_span(f"run {job.definition}", parent, SpanKind.CONSUMER)
        if span.is_recording():
            _describe(span, job, parent)
            self._open[job.job_id, job.lease] = span
            # Whatever the job passes on, and every line about it, is of this attempt.
            job = job._replace(traceparent=traceparent_of(span))
        self._token = attach(set_span_in_context(span, parent))
        return job

    def leave(self) -> None:
        if self._token is not None:
            detach(self._token)
            self._token = None

    def end(self, job: ClaimedJob, outcome: Outcome, error: Mapping[str, Json] | None) -> None:
        span = self._open.pop((job.job_id, job.lease), None)
        if span is None:
            return
        span.set_attribute("jobforge.outcome", outcome)
        if outcome in _FAILURES:
            told = error or {}
            # Redacted before it is cut: half a secret would not be known as one.
            message = redact_text(str(told.get("message", "")))[:_LONGEST_MESSAGE]
            fail(span, str(told.get("code") or told.get("type") or outcome), message)
        span.end()

    def lose(self, job: ClaimedJob) -> None:
        """It is somebody else's by now."""
        span = self._open.pop((job.job_id, job.lease), None)
        if span is not None:
            span.set_attribute("jobforge.outcome", "lost")
            fail(span, LeaseLost.__name__)
            span.end()


def _is_left_out(parent: Context, share: float) -> bool:
    if parent:
        return not is_recorded(parent)
    return share < 1 and random.random() >= share  # noqa: S311 - no secret


def _describe(span: Span, job: ClaimedJob, parent: Context) -> None:
    span.set_attributes(
        {
            "messaging.system": "jobforge",
            "messaging.operation.type": "process",
            "jobforge.job.id": str(job.job_id),
            "jobforge.definition": f"{job.definition}@{job.version}",
            "jobforge.queue": job.queue,
            "jobforge.tenant.id": str(job.tenant_id),
            "jobforge.attempt": job.attempt,
            "jobforge.lease": job.lease,
        }
    )
    enqueued = get_current_span(parent).get_span_context()
    if enqueued.is_valid:
        span.add_link(enqueued)
