"""What running jobs say, kept until the next batch is sent.

There is room for a bounded number. When it is full, the oldest log line makes room.
"""

from collections import deque
from itertools import islice

from jobforge import telemetry
from jobforge.background import off_the_loop
from jobforge.errors import Json
from jobforge.job import ClaimedJob, Note
from jobforge.redact import Scope, redact
from jobforge.worker.leases import Key

_ROOM = 10_000
_LARGEST_BATCH = 2_000
_HEAVIEST_BATCH = 1024**2  # characters
_DEEPEST = 100

Kept = tuple[Note, Scope]


class Notes:
    def __init__(self, room: int = _ROOM) -> None:
        self._room = room
        self._notes: dict[int, Kept] = {}  # by number, oldest first
        self._progress: dict[Key, int] = {}
        self._logs: deque[int] = deque()
        self._last = 0
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._notes)

    def add(self, job: ClaimedJob, kind: str, data: dict[str, Json], scope: Scope) -> None:
        """Keep the note; the scope's secrets are hidden in it when it is taken."""
        if len(self._notes) >= self._room:
            self._drop_one()
        self._last += 1
        self._notes[self._last] = Note(*job.token, kind, data), scope
        if kind == "log":
            self._logs.append(self._last)
        elif kind == "progress":
            self._notes.pop(self._progress.pop((job.job_id, job.lease), 0), None)
            self._progress[job.job_id, job.lease] = self._last

    async def take(self) -> list[Note]:
        """The oldest in their order, as many as go into one call, redacted."""
        weight, taken = self._take()
        return await off_the_loop(weight, _redacted, taken)

    def _take(self) -> tuple[int, list[Kept]]:
        if self._dropped:
            telemetry.emit("notes.dropped", level="warning", notes=self._dropped)
            self._dropped = 0
        taken: list[Kept] = []
        weight = 0
        for number in list(islice(self._notes, _LARGEST_BATCH)):
            if weight >= _HEAVIEST_BATCH:
                break
            kept = self._notes.pop(number)
            taken.append(kept)
            weight += _weight(kept[0].data)
        if not self._notes:
            self._progress.clear()
            self._logs.clear()
        return weight, taken

    def _drop_one(self) -> None:
        self._dropped += 1
        while self._logs:
            if self._notes.pop(self._logs.popleft(), None) is not None:
                return
        self._notes.pop(next(iter(self._notes)))


def _redacted(kept: list[Kept]) -> list[Note]:
    return [note._replace(data=redact(note.data, scope)) for note, scope in kept]


def _weight(value: Json, depth: int = 0) -> int:
    """About the number of its characters. What is nested more deeply will be left out."""
    if isinstance(value, str):
        return len(value)
    if depth > _DEEPEST:
        return 8
    if isinstance(value, dict):
        return sum(len(name) + _weight(member, depth + 1) for name, member in value.items())
    if isinstance(value, list):
        return sum(_weight(element, depth + 1) for element in value)
    return 8
