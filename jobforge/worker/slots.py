"""The free slots of each queue: how many more of its jobs a worker may start."""

from collections import Counter
from collections.abc import Iterable, Mapping

# A claim for fewer jobs costs almost as much as a claim for this many.
_WORTH_A_CLAIM = 8


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
