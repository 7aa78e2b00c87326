"""The leases of a worker's running jobs, each with its deadline.

Leases are renewed while the job runs and, once it has ended, until its outcome is settled.

A deadline uses the worker's own clock, which also counts while the machine is suspended. It counts
from the moment before the claim or heartbeat was sent, so it is never later than the database's.
"""

import math
from asyncio import TimerHandle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from jobforge.types.jobs import Beat, BeatStatus, ClaimedJob, Token
from jobforge.worker.clock import now
from jobforge.worker.runner_protocol import Run, StopReason

LeaseKey = tuple[UUID, int]


@dataclass(slots=True)
class _HeldLease:
    run: Run
    since: float
    deadline: float
    timeout: TimerHandle | None
    is_lost: bool = False

    def mark_lost(self, why: StopReason = StopReason.LOST) -> None:
        # A lost lease is never renewed, even if its run does not end.
        self.is_lost = True
        self.deadline = math.inf
        self.run.stop(why)

    def renew(self, deadline: float) -> None:
        if not self.is_lost:
            self.deadline = deadline


class LeaseTable:
    """The leases that a worker holds.

    `is_heartbeat_pending` is true from when a heartbeat is sent until the database responds, so it
    stays true during an outage.
    """

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._held: dict[LeaseKey, _HeldLease] = {}
        self.is_heartbeat_pending = False

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Run]:
        return iter([held.run for held in self._held.values()])

    def hold(self, run: Run, deadline: float, timeout: TimerHandle | None) -> None:
        job = run.job
        self._held[job.job_id, job.lease] = _HeldLease(run, now(), deadline, timeout)

    def drop(self, job: ClaimedJob) -> float:
        """Forget an ended job and return its run time in seconds; 0 if it was never held."""
        # Most short jobs are never held, and hashing a UUID costs as much as the rest of this.
        held = self._held.pop((job.job_id, job.lease), None) if self._held else None
        if held is None:
            return 0.0
        if held.timeout is not None:
            held.timeout.cancel()
        return now() - held.since

    def tokens(self, held_for_s: float) -> list[Token]:
        """Return the leases to renew, of jobs that have been running for this long."""
        before = now() - held_for_s
        return [
            held.run.job.token
            for held in self._held.values()
            if held.since <= before and not held.is_lost
        ]

    def renew(self, sent_at: float, beats: Iterable[Beat]) -> bool:
        """Apply a heartbeat's response; return whether a lease was held by another transaction.

        Such a lease was not renewed, so the next heartbeat is due soon.
        """
        is_any_held = False
        for beat in beats:
            held = self._held.get((beat.job_id, beat.lease))
            if held is None:
                continue
            match beat.status:
                case BeatStatus.HELD:
                    is_any_held = True
                case BeatStatus.LOST:
                    held.mark_lost()
                case BeatStatus.CANCEL:
                    held.renew(sent_at + self._lease_s)
                    held.run.stop(StopReason.CANCEL)
                case BeatStatus.OK:
                    held.renew(sent_at + self._lease_s)
        return is_any_held

    def mark_lost(self, keys: Iterable[LeaseKey]) -> None:
        for key in keys:
            if key in self._held:
                self._held[key].mark_lost()

    def stop_overdue(self) -> None:
        """Stop jobs whose lease has expired, because another worker may run them by now.

        A lease that expires while a heartbeat is pending expired in an outage, which is not the
        job's fault: the worker releases the job once the database is reachable again, and the
        release does not count as an attempt.
        """
        moment = now()
        why = StopReason.EXPIRED if self.is_heartbeat_pending else StopReason.LOST
        for held in [*self._held.values()]:
            if held.deadline <= moment:
                held.mark_lost(why)

    def stop_all(self, why: StopReason) -> None:
        for run in self:
            run.stop(why)

    def next_deadline_s(self) -> float:
        """Return the seconds until the first lease expires; infinite without leases."""
        first = min((held.deadline for held in self._held.values()), default=math.inf)
        return max(0.0, first - now())
