"""The free slots of each queue, and when freed slots cause the next claim.

Finished jobs share a claim and a settle. With few slots and short jobs, each would otherwise cause
a separate claim and settle, which cost as much as the job. The next round is not delayed if enough
slots are free for a claim, or if no more jobs wait in the queues; then only a settle is due.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

# A claim for fewer jobs costs almost as much as a claim for this many.
_WORTH_A_CLAIM = 8
# A finished job waits for others for at most this fraction of its run time, capped at _LONGEST_S.
_SHARE = 0.25
_LONGEST_S = 0.01


class Slots:
    """Free slots by queue.

    A queue is known to have more jobs after a full claim or a notification.
    """

    def __init__(self, queues: Mapping[str, int]) -> None:
        self._free = dict(queues)
        self._more = dict.fromkeys(queues, True)
        # At most half of a queue's slots: the jobs in the other half keep the worker busy.
        self._claim_thresholds = {
            queue: min((slots + 1) // 2, _WORTH_A_CLAIM) for queue, slots in queues.items()
        }
        self.total = sum(queues.values())

    def limits(self, room: int) -> dict[str, int]:
        """Return how many jobs of each queue to request in a claim for at most `room` jobs.

        Queues with few free slots are served first, so that large queues do not crowd them out.
        """
        return self._split_room(room, self._free)

    def limits_for_ready_queues(self, room: int) -> dict[str, int]:
        """Return the limits for the queues that are known to have more jobs only."""
        return self._split_room(room, [queue for queue, more in self._more.items() if more])

    @property
    def has_room_for_more(self) -> bool:
        """Whether a queue that is known to have more jobs has enough free slots for a claim."""
        return any(
            more and self._free[queue] >= self._claim_thresholds[queue]
            for queue, more in self._more.items()
        )

    def reserve(self, requested: Mapping[str, int], claimed: Mapping[str, int]) -> bool:
        """Take the claimed jobs' slots; return whether a queue returned as many as requested."""
        for queue, limit in requested.items():
            count = claimed.get(queue, 0)
            self._free[queue] -= count
            self._more[queue] = count == limit > 0
        return any(self._more[queue] for queue in requested)

    def release(self, *queues: str) -> bool:
        """Release the slots of ended jobs; return whether more jobs may wait in these queues."""
        released = Counter(queues)
        for queue, count in released.items():
            self._free[queue] += count
        return any(self._more[queue] for queue in released)

    def mark_has_jobs(self, queue: str) -> None:
        """Record a notification that the queue has a new job."""
        if queue in self._more:
            self._more[queue] = True

    def _split_room(self, room: int, queues: Iterable[str]) -> dict[str, int]:
        open_queues = sorted((free, queue) for queue in queues if (free := self._free[queue]) > 0)
        limits = {}
        for number, (free, queue) in enumerate(open_queues):
            limits[queue] = min(free, room // (len(open_queues) - number))
            room -= limits[queue]
        return limits


class Pacer:
    """Releases slots, and wakes the claimer and the settler once for several finished jobs."""

    def __init__(self, slots: Slots, claim: Callable[[], None], settle: Callable[[], None]) -> None:
        self._slots = slots
        self._claim = claim
        self._settle = settle
        self._next: asyncio.TimerHandle | None = None

    def record_ends(self, *queues: str, ran_s: float = 0.0) -> None:
        """Release the slots of jobs of these queues that have ended, and schedule the next round.

        `ran_s` is how long the job ran; 0 means that the round runs at once.
        """
        if not self._slots.release(*queues):
            self._settle()
        elif self._slots.has_room_for_more or not ran_s:
            self._claim_and_settle()
        elif self._next is None:
            wait_s = min(_SHARE * ran_s, _LONGEST_S)
            self._next = asyncio.get_running_loop().call_later(wait_s, self._claim_and_settle)

    def _claim_and_settle(self) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._claim()
        self._settle()
