"""How many more jobs of each queue a worker may start."""

from collections import Counter
from collections.abc import Mapping


class Slots:
    """A queue is known to have more when its last claim was answered in full, or it was told so."""

    def __init__(self, queues: Mapping[str, int]) -> None:
        self._free = dict(queues)
        self._more = dict.fromkeys(queues, True)
        self.total = sum(queues.values())

    @property
    def taken(self) -> int:
        return self.total - sum(self._free.values())

    def limits(self, room: int) -> dict[str, int]:
        """What a claim for `room` jobs may ask for. The smallest first: none is crowded out."""
        open_queues = sorted((free, queue) for queue, free in self._free.items() if free > 0)
        limits = {}
        for number, (free, queue) in enumerate(open_queues):
            limits[queue] = min(free, room // (len(open_queues) - number))
            room -= limits[queue]
        return limits

    @property
    def has_room_for_more(self) -> bool:
        """Whether a queue that is known to have more has a free slot too."""
        return any(more and self._free[queue] > 0 for queue, more in self._more.items())

    def take(self, asked: Mapping[str, int], claimed: Mapping[str, int]) -> bool:
        """Whether one of the queues was answered in full."""
        for queue, limit in asked.items():
            taken = claimed.get(queue, 0)
            self._free[queue] -= taken
            self._more[queue] = taken == limit > 0
        return any(self._more[queue] for queue in asked)

    def give(self, *queues: str) -> bool:
        """Jobs of these have ended. Whether others may be waiting for their slots."""
        given = Counter(queues)
        for queue, count in given.items():
            self._free[queue] += count
        return any(self._more[queue] for queue in given)

    def expect(self, queue: str) -> None:
        """The queue was said to have a new job."""
        if queue in self._more:
            self._more[queue] = True
