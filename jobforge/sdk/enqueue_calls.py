"""Jobs as the calls that enqueue them: one job, many alike, many of any kind."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from uuid import UUID

from jobforge import calls
from jobforge.calls import Call
from jobforge.errors import Invalid
from jobforge.payloads.signature import locate_refusal
from jobforge.payloads.size import (
    PAYLOAD_LIMIT,
    find_large_payloads,
    fits,
    has_large_payload,
    is_surely_small,
    may_have_large_payload,
)
from jobforge.types.jobs import Enqueued, JobRequest, UniformJobs

# So many at a time go out where the next can be written while the engine works on these.
STREAM_BATCH_SIZE = 1_000
_MOST_JOBS = 5_000  # in one statement

EnqueueCall = Call[Iterable[Enqueued]]


class LargePayloadFound(Exception):
    """One of many payloads is too large for a row."""


def build_call(jobs: Sequence[JobRequest], tenant_id: UUID | None = None) -> EnqueueCall:
    """The engine has shorter ways for jobs that differ in their payloads only, and for one job."""
    try:
        if isinstance(jobs, UniformJobs):
            return calls.enqueue_alike(jobs, tenant_id=tenant_id)
        if len(jobs) == 1:
            return calls.enqueue_job(jobs[0], tenant_id=tenant_id).map_result(_to_list)
        return calls.enqueue_jobs(jobs, tenant_id=tenant_id)
    except Invalid as error:
        faulty = jobs[error.detail.get("index", 0)]
        if error.field != "payload" or faulty.payload is None:
            raise
        raise locate_refusal(error, faulty.payload) from error


def may_be_large(jobs: Sequence[JobRequest], call: EnqueueCall) -> bool:
    """Whether a payload may be too large for a row, by the text that the call has of them."""
    if isinstance(jobs, UniformJobs):
        is_small = is_surely_small(str(call.parameters[1]), PAYLOAD_LIMIT)
        return not is_small and has_large_payload(jobs.payloads)
    if len(jobs) == 1:
        return not fits(str(call.parameters[1]), PAYLOAD_LIMIT)
    return may_have_large_payload(str(call.parameters[0]))


def _to_list(enqueued: Enqueued) -> list[Enqueued]:
    return [enqueued]


def stream_calls(jobs: Sequence[JobRequest]) -> Iterator[EnqueueCall]:
    """Raises Large: to put a payload away takes longer than a transaction should stay open."""
    for batch in split_batches(jobs, STREAM_BATCH_SIZE):
        call = build_call(batch)
        if may_be_large(batch, call) and find_large_payloads(batch):
            raise LargePayloadFound
        yield call


def split_batches(
    jobs: Sequence[JobRequest], most: int = _MOST_JOBS
) -> Iterator[Sequence[JobRequest]]:
    for start in range(0, len(jobs), most):
        yield jobs[start : start + most]


def join_enqueued(answers: Iterable[Iterable[Enqueued]]) -> Iterable[Enqueued]:
    return chain.from_iterable(list(answers))
