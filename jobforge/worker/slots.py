"""How many more jobs of each queue a worker may start."""

from collections import Counter
from collections.abc import Iterable, Mapping

# A claim for fewer jobs costs hardly less than for so many.
_WORTH_A_CLAIM = 8


class Slots:
    """A queue is known to have more when its last claim was answered in full, or it was told so."""

    def __init__(self, queues: Mapping[str, int]) -> None:
        self._free = dict(queues)
        self._more = dict.fromkeys(queues, True)
        # Half of a queue's slots: the jobs in the others keep the worker busy meanwhile.
        self._claim_thresholds = {
            queue: min((slots + 1) // 2, _WORTH_A_CLAIM) for queue, slots in queues.items()
        }
        self.total = sum(queues.values())

    def limits(self, room: int) -> dict[str, int]:
        """What a claim for `room` jobs may ask for. The smallest first: none is crowded out."""
        return self._split_room(room, self._free)

    def limits_for_ready_queues(self, room: int) -> dict[str, int]:
        """As `limits`, of the queues that are known to have more."""
        return self._split_room(room, [queue for queue, more in self._more.items() if more])

    @property
    def has_room_for_more(self) -> bool:
        """Whether a queue that is known to have more has enough free slots for a claim too."""
        return any(
            more and self._free[queue] >= self._claim_thresholds[queue]
            for queue, more in self._more.items()
        )

    def reserve(self, asked: Mapping[str, int], claimed: Mapping[str, int]) -> bool:
        """Whether one of the queues was answered in full."""
        for queue, limit in asked.items():
            taken = claimed.get(queue, 0)
            self._free[queue] -= taken
            self._more[queue] = taken == limit > 0
        return any(self._more[queue] for queue in asked)

    def release(self, *queues: str) -> bool:
        """Jobs of these have ended. Whether others may be waiting for their slots."""
        given = Counter(queues)
        for queue, count in given.items():
            self._free[queue] += count
        return any(self._more[queue] for queue in given)

    def mark_has_jobs(self, queue: str) -> None:
        """The queue was said to have a new job."""
        if queue in self._more:
            self._more[queue] = True

    def _split_room(self, room: int, queues: Iterable[str]) -> dict[str, int]:
        open_queues = sorted((free, queue) for queue in queues if (free := self._free[queue]) > 0)
        limits = {}
        for number, (free, queue) in enumerate(open_queues):
            limits[queue] = min(free, room // (len(open_queues) - number))
            room -= limits[queue]
        return limits
