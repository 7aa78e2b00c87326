"""The jobs that a worker is running, and until when each is its own. Their leases are extended, and
those of jobs that have ended, until they are settled.

A deadline is by the worker's own clock, one that goes on while the machine sleeps. It is counted
from before the request was sent that got or extended the lease, so it never lies after the
database's.
"""

import math
from asyncio import TimerHandle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from uuid import UUID

from jobforge.types.jobs import Beat, BeatStatus, ClaimedJob, Token
from jobforge.worker.clock import now
from jobforge.worker.runner import Run, StopReason

LeaseKey = tuple[UUID, int]


@dataclass(slots=True)
class _HeldLease:
    run: Run
    since: float
    deadline: float
    timeout: TimerHandle | None
    is_lost: bool = False

    def mark_lost(self, why: StopReason = StopReason.LOST) -> None:
        # A lease once given up is never extended, even if its run does not end.
        self.is_lost = True
        self.deadline = math.inf
        self.run.stop(why)

    def renew(self, deadline: float) -> None:
        if not self.is_lost:
            self.deadline = deadline


class LeaseTable:
    """`is_unanswered` is true from when a heartbeat is sent until the database responds."""

    def __init__(self, lease_s: float) -> None:
        self._lease_s = lease_s
        self._held: dict[LeaseKey, _HeldLease] = {}
        self.is_heartbeat_pending = False
        self._list_unsettled: Callable[[float], Iterable[Token]] = lambda _: ()

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Run]:
        return iter([held.run for held in self._held.values()])

    def set_unsettled_source(self, ended: Callable[[float], Iterable[Token]]) -> None:
        """Extend also the leases of these: jobs that have ended and waited for so long since."""
        self._list_unsettled = ended

    def hold(self, run: Run, deadline: float, timeout: TimerHandle | None) -> None:
        job = run.job
        self._held[job.job_id, job.lease] = _HeldLease(run, now(), deadline, timeout)

    def drop(self, job: ClaimedJob) -> float:
        """It has ended. Answers for how many seconds it ran; 0 if it ended as it began."""
        # Most of many short jobs were never held; the hash of a UUID costs as much as the rest.
        held = self._held.pop((job.job_id, job.lease), None) if self._held else None
        if held is None:
            return 0.0
        if held.timeout is not None:
            held.timeout.cancel()
        return now() - held.since

    def tokens(self, held_for_s: float) -> list[Token]:
        """Of the jobs that have been running for so long, or have ended and are not settled."""
        before = now() - held_for_s
        running = [
            held.run.job.token
            for held in self._held.values()
            if held.since <= before and not held.is_lost
        ]
        return [*running, *self._list_unsettled(held_for_s)]

    def renew(self, sent_at: float, beats: Iterable[Beat]) -> bool:
        """Returns whether a lease could not be extended: another heartbeat is then due soon."""
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
        """Stops what may be somebody else's by now.

        In an outage that is not the job's fault. The worker hands it back when the database is
        reachable again, which does not count as an attempt.
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
        """How long until the first lease runs out."""
        first = min((held.deadline for held in self._held.values()), default=math.inf)
        return max(0.0, first - now())
