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
# In characters. Nothing else happens in the worker while secrets are looked for in them.
_HEAVIEST_BATCH = 1024**2


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
        taken: list[Note] = []
        weight = 0
        for number in list(islice(self._notes, _LARGEST_BATCH)):
            if weight >= _HEAVIEST_BATCH:
                break
            note = self._notes.pop(number)
            said = redact.redact(note.data)
            taken.append(note._replace(data=said))
            weight += _weight(said)
        if not self._notes:
            self._progress.clear()
            self._logs.clear()
        return taken

    def _drop_one(self) -> None:
        self._dropped += 1
        while self._logs:
            if self._notes.pop(self._logs.popleft(), None) is not None:
                return
        self._notes.pop(next(iter(self._notes)))


def _weight(value: Json) -> int:
    """About as many characters as it has. What was redacted is not nested deeply."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(name) + _weight(member) for name, member in value.items())
    if isinstance(value, list):
        return sum(map(_weight, value))
    return 8
