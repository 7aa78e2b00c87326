"""What running jobs say, kept until the next batch is sent.

There is room for a bounded number. When it is full, the oldest log line makes room.
"""

from collections import deque
from itertools import islice

from jobforge import redact, telemetry
from jobforge.errors import Json
from jobforge.job import ClaimedJob, Note
from jobforge.worker.leases import Key

_ROOM = 10_000
_LARGEST_BATCH = 2_000


class Notes:
    def __init__(self, room: int = _ROOM) -> None:
        self._room = room
        self._notes: dict[int, Note] = {}  # by number, oldest first
        self._progress: dict[Key, int] = {}
        self._logs: deque[int] = deque()
        self._last = 0
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._notes)

    def add(self, job: ClaimedJob, kind: str, data: dict[str, Json]) -> None:
        if len(self._notes) >= self._room:
            self._drop_one()
        self._last += 1
        self._notes[self._last] = Note(*job.token, kind, data)
        if kind == "log":
            self._logs.append(self._last)
        elif kind == "progress":
            self._notes.pop(self._progress.pop((job.job_id, job.lease), 0), None)
            self._progress[job.job_id, job.lease] = self._last

    def take(self) -> list[Note]:
        """The oldest, as many as go into one call."""
        if self._dropped:
            telemetry.emit("notes.dropped", level="warning", notes=self._dropped)
            self._dropped = 0
        numbers = list(islice(self._notes, _LARGEST_BATCH))
        taken = [self._notes.pop(number) for number in numbers]
        if not self._notes:
            self._progress.clear()
            self._logs.clear()
        return [note._replace(data=redact.redact(note.data)) for note in taken]

    def _drop_one(self) -> None:
        self._dropped += 1
        while self._logs:
            if self._notes.pop(self._logs.popleft(), None) is not None:
                return
        self._notes.pop(next(iter(self._notes)))
