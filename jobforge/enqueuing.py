"""Jobs as the calls that enqueue them: one job, many alike, many of any kind."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from uuid import UUID

from jobforge import calls
from jobforge.artifacts.size import (
    PAYLOAD_LIMIT,
    fits,
    has_large_payload,
    is_surely_small,
    large_payloads,
    may_have_large_payload,
)
from jobforge.calls import Call
from jobforge.errors import Invalid
from jobforge.job import Alike, Enqueued, EnqueueStatus, JobRequest
from jobforge.parameters import refused

# So many at a time go out where the next can be written while the engine works on these.
STREAMED_JOBS = 1_000
_MOST_JOBS = 5_000  # in one statement


class Large(Exception):
    """One of many payloads is too large for a row."""


class Enqueuing:
    """Jobs as a call, written once: the tenant is its last parameter.

    The engine has shorter ways for one job, and for jobs that differ in their payloads only.
    """

    __slots__ = ("_call", "_jobs", "_written")

    def __init__(self, jobs: Sequence[JobRequest]) -> None:
        self._jobs = jobs
        try:
            self._call, self._written = _written(jobs)
        except Invalid as error:
            faulty = jobs[error.detail.get("index", 0)]
            if error.field != "payload" or faulty.payload is None:
                raise
            raise refused(error, faulty.payload) from error

    def __call__(self, tenant_id: UUID | None) -> Call[Iterable[Enqueued]]:
        call = self._call
        return Call(call.sql, (*call.parameters[:-1], tenant_id), *call[2:])

    @property
    def may_be_large(self) -> bool:
        """Whether a payload may be too large for a row, by the text that it was written as."""
        if len(self._jobs) == 1:
            return not fits(self._written, PAYLOAD_LIMIT)
        if isinstance(self._jobs, Alike):
            is_small = is_surely_small(self._written, PAYLOAD_LIMIT)
            return not is_small and has_large_payload(self._jobs.payloads)
        return may_have_large_payload(self._written)


def _written(jobs: Sequence[JobRequest]) -> tuple[Call[Iterable[Enqueued]], str]:
    """The call, and the text that their payloads are in."""
    if len(jobs) == 1:
        one = calls.enqueue_job(jobs[0])
        return one.then(_listed), str(one.parameters[1])
    if isinstance(jobs, Alike):
        alike = calls.enqueue_alike(jobs)
        return alike.then(_created), str(alike.parameters[1])
    many = calls.enqueue_jobs(jobs)
    return many, str(many.parameters[0])


def _listed(enqueued: Enqueued) -> list[Enqueued]:
    return [enqueued]


def _created(ids: list[UUID]) -> Iterable[Enqueued]:
    # One at a time: as many tuples again, kept, would set off the garbage collector.
    return map(Enqueued, ids, repeat(EnqueueStatus.CREATED))


def streamed(jobs: Sequence[JobRequest]) -> Iterator[Call[Iterable[Enqueued]]]:
    """Raises Large: to put a payload away takes longer than a transaction should stay open."""
    for batch in batches(jobs, STREAMED_JOBS):
        enqueuing = Enqueuing(batch)
        if enqueuing.may_be_large and large_payloads(batch):
            raise Large
        yield enqueuing(None)


def batches(jobs: Sequence[JobRequest], most: int = _MOST_JOBS) -> Iterator[Sequence[JobRequest]]:
    for start in range(0, len(jobs), most):
        yield jobs[start : start + most]


def joined(answers: Iterable[Iterable[Enqueued]]) -> Iterable[Enqueued]:
    return chain.from_iterable(list(answers))
