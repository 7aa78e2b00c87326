"""Jobs as the calls that enqueue them: one job, many alike, many of any kind."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from uuid import UUID

from jobforge import calls
from jobforge.calls import Call
from jobforge.errors import Invalid
from jobforge.payloads.signature import refused
from jobforge.payloads.size import (
    PAYLOAD_LIMIT,
    fits,
    has_large_payload,
    is_surely_small,
    large_payloads,
    may_have_large_payload,
)
from jobforge.types.jobs import Alike, Enqueued, JobRequest

# So many at a time go out where the next can be written while the engine works on these.
STREAMED_JOBS = 1_000
_MOST_JOBS = 5_000  # in one statement

Enqueuing = Call[Iterable[Enqueued]]


class Large(Exception):
    """One of many payloads is too large for a row."""


def as_call(jobs: Sequence[JobRequest], tenant_id: UUID | None = None) -> Enqueuing:
    """The engine has shorter ways for jobs that differ in their payloads only, and for one job."""
    try:
        if isinstance(jobs, Alike):
            return calls.enqueue_payloads(jobs, tenant_id=tenant_id)
        if len(jobs) == 1:
            return calls.enqueue_job(jobs[0], tenant_id=tenant_id).then(_listed)
        return calls.enqueue_jobs(jobs, tenant_id=tenant_id)
    except Invalid as error:
        faulty = jobs[error.detail.get("index", 0)]
        if error.field != "payload" or faulty.payload is None:
            raise
        raise refused(error, faulty.payload) from error


def may_be_large(jobs: Sequence[JobRequest], call: Enqueuing) -> bool:
    """Whether a payload may be too large for a row, by the text that the call has of them."""
    if isinstance(jobs, Alike):
        is_small = is_surely_small(str(call.parameters[1]), PAYLOAD_LIMIT)
        return not is_small and has_large_payload(jobs.payloads)
    if len(jobs) == 1:
        return not fits(str(call.parameters[1]), PAYLOAD_LIMIT)
    return may_have_large_payload(str(call.parameters[0]))


def _listed(enqueued: Enqueued) -> list[Enqueued]:
    return [enqueued]


def streamed(jobs: Sequence[JobRequest]) -> Iterator[Enqueuing]:
    """Raises Large: to put a payload away takes longer than a transaction should stay open."""
    for batch in batches(jobs, STREAMED_JOBS):
        call = as_call(batch)
        if may_be_large(batch, call) and large_payloads(batch):
            raise Large
        yield call


def batches(jobs: Sequence[JobRequest], most: int = _MOST_JOBS) -> Iterator[Sequence[JobRequest]]:
    for start in range(0, len(jobs), most):
        yield jobs[start : start + most]


def joined(answers: Iterable[Iterable[Enqueued]]) -> Iterable[Enqueued]:
    return chain.from_iterable(list(answers))
