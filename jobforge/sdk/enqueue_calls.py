"""Builds the engine calls that enqueue jobs: one job, uniform jobs, or a mixed list."""

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

# Jobs per call in a stream: the client encodes the next batch while the engine runs this one.
STREAM_BATCH_SIZE = 1_000
_MOST_JOBS = 5_000  # per statement

EnqueueCall = Call[Iterable[Enqueued]]


class LargePayloadFound(Exception):
    """A payload in a stream of jobs is too large for a row."""


def build_call(jobs: Sequence[JobRequest], tenant_id: UUID | None = None) -> EnqueueCall:
    """Return the call that enqueues these jobs.

    The engine has cheaper functions for one job, and for jobs that differ in their payloads only.
    """
    try:
        if isinstance(jobs, UniformJobs):
            return calls.enqueue_payloads(jobs, tenant_id=tenant_id)
        if len(jobs) == 1:
            return calls.enqueue_job(jobs[0], tenant_id=tenant_id).map_result(_to_list)
        return calls.enqueue_jobs(jobs, tenant_id=tenant_id)
    except Invalid as error:
        faulty = jobs[error.detail.get("index", 0)]
        if error.field != "payload" or faulty.payload is None:
            raise
        raise locate_refusal(error, faulty.payload) from error


def may_be_large(jobs: Sequence[JobRequest], call: EnqueueCall) -> bool:
    """Whether a payload may be too large for a row, judged by the encoded text of the call."""
    if isinstance(jobs, UniformJobs):
        is_small = is_surely_small(str(call.arguments["payloads"]), PAYLOAD_LIMIT)
        return not is_small and has_large_payload(jobs.payloads)
    if len(jobs) == 1:
        return not fits(str(call.arguments["payload"]), PAYLOAD_LIMIT)
    return may_have_large_payload(str(call.arguments["jobs"]))


def _to_list(enqueued: Enqueued) -> list[Enqueued]:
    return [enqueued]


def stream_calls(jobs: Sequence[JobRequest]) -> Iterator[EnqueueCall]:
    """Yield one call per batch of jobs; raise LargePayloadFound for a payload too large for a row.

    Storing such a payload as an artifact takes longer than a transaction should stay open.
    """
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
