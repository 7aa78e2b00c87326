"""What running jobs say, kept until the next batch is sent.

Each job has its own room, and each batch takes from all jobs in turn: a job that says too much
loses its own oldest log lines, and no other job waits for it or loses anything. The number of lost
entries is logged in their place.
"""

from collections import deque
from operator import attrgetter

from jobforge.errors import Json
from jobforge.observability import logs
from jobforge.redact import Scope, redact
from jobforge.redact.background import off_the_loop
from jobforge.types.jobs import ClaimedJob, Note
from jobforge.worker.leases import Key

_ROOM = 10_000
_ROOM_OF_JOB = 1_000
# In characters.
_WEIGHT = 64 * 1024**2
_WEIGHT_OF_JOB = 16 * 1024**2
_LARGEST_BATCH = 2_000
_HEAVIEST_BATCH = 1024**2

Kept = tuple[Note, Scope]


class Notes:
    def __init__(
        self,
        room: int = _ROOM,
        room_of_job: int = _ROOM_OF_JOB,
        weight: int = _WEIGHT,
        weight_of_job: int = _WEIGHT_OF_JOB,
    ) -> None:
        self._room, self._weight_limit = room, weight
        self._room_of_job, self._weight_of_job = room_of_job, weight_of_job
        self._queues: dict[Key, _Queue] = {}  # whose turn it is, first
        self._count = 0
        self._weight = 0
        self.last = 0

    def __len__(self) -> int:
        return self._count

    def add(self, job: ClaimedJob, kind: str, data: dict[str, Json], scope: Scope) -> None:
        """Keep the note; the scope's secrets are hidden in it when it is taken."""
        key = job.job_id, job.lease
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue()
        self.last += 1
        self._change(queue, *queue.add(self.last, Note(*job.token, kind, data), scope))
        while len(queue) > self._room_of_job or (
            queue.weight > self._weight_of_job and len(queue) > 1
        ):
            self._change(queue, -1, -queue.drop_one())
        while self._count > self._room:
            longest = max(self._queues.values(), key=len)
            self._change(longest, -1, -longest.drop_one())
        while self._weight > self._weight_limit:
            heaviest = max(self._queues.values(), key=attrgetter("weight"))
            self._change(heaviest, -1, -heaviest.drop_one())

    def has_until(self, number: int) -> bool:
        """Whether something is left of what had been said when `last` was this number."""
        return any(queue.first <= number for queue in self._queues.values() if queue)

    async def take(self) -> list[Note]:
        """The notes of the next call, redacted: the oldest of each job, job by job in turn."""
        weight, taken = self._take()
        return await off_the_loop(weight, _redacted, taken)

    def _take(self) -> tuple[int, list[Kept]]:
        taken: list[Kept] = []
        weight = 0
        while self._queues and len(taken) < _LARGEST_BATCH and weight < _HEAVIEST_BATCH:
            key = next(iter(self._queues))
            queue = self._queues.pop(key)
            if not queue:
                continue
            if queue.dropped:
                taken.append(queue.report())
            kept, heavy = queue.take()
            self._count -= 1
            self._weight -= heavy
            taken.append(kept)
            weight += heavy
            if queue:
                self._queues[key] = queue
        return weight, taken

    def _change(self, queue: "_Queue", count: int, weight: int) -> None:
        self._count += count
        self._weight += weight
        queue.weight += weight


class _Queue:
    """The notes of one run of a job, by number, oldest first."""

    __slots__ = ("_logs", "_notes", "_progress", "dropped", "weight")

    def __init__(self) -> None:
        self._notes: dict[int, tuple[Kept, int]] = {}
        self._logs: deque[int] = deque()
        self._progress = 0
        self.dropped = 0
        self.weight = 0

    def __len__(self) -> int:
        return len(self._notes)

    @property
    def first(self) -> int:
        return next(iter(self._notes))

    def add(self, number: int, note: Note, scope: Scope) -> tuple[int, int]:
        """By how much the number and the weight of the notes change."""
        weight = _weight(note.data)
        self._notes[number] = (note, scope), weight
        if note.kind == "log":
            self._logs.append(number)
        elif note.kind == "progress":
            replaced = self._notes.pop(self._progress, None)
            self._progress = number
            if replaced is not None:
                return 0, weight - replaced[1]
        return 1, weight

    def drop_one(self) -> int:
        """The weight of the oldest log line, or else of the oldest note, which is discarded."""
        self.dropped += 1
        while self._logs:
            dropped = self._notes.pop(self._logs.popleft(), None)
            if dropped is not None:
                return dropped[1]
        return self._notes.pop(self.first)[1]

    def take(self) -> tuple[Kept, int]:
        kept, weight = self._notes.pop(self.first)
        self.weight -= weight
        return kept, weight

    def report(self) -> Kept:
        """A log line in the place of those that were dropped."""
        dropped, self.dropped = self.dropped, 0
        (note, scope), _ = self._notes[self.first]
        logs.emit("notes.dropped", level="warning", job_id=note.job_id, notes=dropped)
        message = f"{dropped:,} lines dropped: the job wrote them faster than they can be stored"
        return note._replace(kind="log", data={"level": "warning", "message": message}), scope


def _redacted(kept: list[Kept]) -> list[Note]:
    return [note._replace(data=redact(note.data, scope)) for note, scope in kept]


def _weight(value: Json) -> int:
    """About the number of characters; of something very large or cyclic, a part of them."""
    weight, left = 0, [value]
    while left and weight <= _WEIGHT_OF_JOB:
        each = left.pop()
        if isinstance(each, dict):
            weight += sum(map(len, map(str, each)))
            left += each.values()
        elif isinstance(each, list):
            left += each
        weight += len(each) if isinstance(each, str) else 8
    return weight
