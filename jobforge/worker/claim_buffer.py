"""Buffer of claimed jobs that have not been started: unread claim results, and jobs read from one.

A claim's rows are read when its jobs are started; by then the next claim is in flight.

Buffered jobs have left the tenants' fair queue, so a large buffer delays jobs that arrive later.
That does no harm while only one tenant has jobs. When one tenant has most of the claimed jobs and
others have some (flooding), the buffer is kept small.
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
    """Claimed jobs, each with its lease deadline by the worker's clock."""

    def __init__(self, meters: Meters | None = None) -> None:
        self._unread: deque[tuple[PendingResult[list[ClaimedJob]], float]] = deque()
        self._meters = meters
        self._flood_ends = 0.0
        self.jobs: deque[tuple[ClaimedJob, float]] = deque()

    @property
    def is_flooded(self) -> bool:
        """Whether a recent claim had most of its jobs from one tenant and some from others."""
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
        """Read the next claim's jobs, if those of the previous claim are all started."""
        if self.jobs or not self._unread:
            return
        # Popped before it is read: a result that cannot be read must not block the next one.
        answer, deadline = self._unread.popleft()
        jobs = await answer.read()
        flooder = _find_flooding_tenant(jobs)
        if flooder is not None:
            self._flood_ends = now() + _FLOOD_DURATION_S
            jobs.sort(key=lambda job: job.tenant_id == flooder)  # other tenants' jobs first
        self.jobs.extend([(job, deadline) for job in jobs])
        if self._meters is not None:
            self._meters.record_received(jobs)


def _find_flooding_tenant(jobs: list[ClaimedJob]) -> UUID | None:
    """Return the tenant that has most of the jobs, if other tenants have some."""
    if len(jobs) < SMALL_BUFFER:
        return None
    tenants = [job.tenant_id.int for job in jobs]  # integers compare much faster than UUIDs
    if min(tenants) == max(tenants):
        return None
    ((tenant, count),) = Counter(tenants).most_common(1)
    return UUID(int=tenant) if count > len(jobs) / 2 else None
