"""Claimed jobs that have not been started: answers as they came, and the jobs of the first.

An answer is read when its jobs are started: by then the next claim is on its way.

Jobs that lie here are in nobody's turn any more: who comes now waits for all of them. That is no
matter while one tenant is alone. But where one has most of the jobs and others have some, few are
kept, so that those others' next ones find a short line.
"""

from collections import Counter, deque
from uuid import UUID

from jobforge.calls import PendingResult
from jobforge.observability.metrics import Meters
from jobforge.types.jobs import ClaimedJob
from jobforge.worker.clock import now

SMALL_BUFFER = 100
_FLOOD_DURATION_S = 1.0


class ClaimBuffer:
    """Each job comes with the end of its lease by our own clock."""

    def __init__(self, meters: Meters | None = None) -> None:
        self._unread: deque[tuple[PendingResult[list[ClaimedJob]], float]] = deque()
        self._meters = meters
        self._flood_ends = 0.0
        self.jobs: deque[tuple[ClaimedJob, float]] = deque()

    @property
    def is_flooded(self) -> bool:
        """By one tenant, while others have jobs too, or had some lately."""
        return now() < self._flood_ends

    @property
    def is_crowded(self) -> bool:
        count = len(self.jobs) + sum(answer.row_count for answer, _ in self._unread)
        return count > SMALL_BUFFER and self.is_flooded

    def __bool__(self) -> bool:
        return bool(self.jobs or self._unread)

    def add(self, answer: PendingResult[list[ClaimedJob]], deadline: float) -> None:
        self._unread.append((answer, deadline))

    async def read_next(self) -> None:
        """The next answer, when there are no more jobs of the last."""
        if self.jobs or not self._unread:
            return
        answer, deadline = self._unread.popleft()  # first: one that cannot be read blocks no other
        jobs = await answer.read()
        flooder = _find_flooding_tenant(jobs)
        if flooder is not None:
            self._flood_ends = now() + _FLOOD_DURATION_S
            jobs.sort(key=lambda job: job.tenant_id == flooder)  # the others' come first
        self.jobs.extend([(job, deadline) for job in jobs])
        if self._meters is not None:
            self._meters.record_received(jobs)


def _find_flooding_tenant(jobs: list[ClaimedJob]) -> UUID | None:
    """The tenant that has most of the jobs, if others have some."""
    if len(jobs) < SMALL_BUFFER:
        return None
    tenants = [job.tenant_id.int for job in jobs]  # numbers are compared much faster than ids
    if min(tenants) == max(tenants):
        return None
    ((tenant, count),) = Counter(tenants).most_common(1)
    return UUID(int=tenant) if count > len(jobs) / 2 else None
