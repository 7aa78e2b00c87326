"""Buffer of running jobs' notes (log lines, progress, events) for the next batch.

Each job has a separate, bounded queue, and each batch takes notes from all jobs round robin. A job
that writes too many notes loses its own oldest log lines; it neither delays other jobs nor drops
their notes. A log line with the number of dropped notes replaces them.
"""

from collections import deque
from operator import attrgetter

from jobforge.errors import Json
from jobforge.observability import logs
from jobforge.redact import RedactionScope, redact
from jobforge.redact.background import run_off_loop
from jobforge.types.jobs import ClaimedJob, Note
from jobforge.worker.leases import LeaseKey

_MAX_NOTES = 10_000
_MAX_JOB_NOTES = 1_000
# In characters.
_MAX_CHARACTERS = 64 * 1024**2
_MAX_JOB_CHARACTERS = 16 * 1024**2
_LARGEST_BATCH = 2_000
_MAX_BATCH_CHARACTERS = 1024**2

ScopedNote = tuple[Note, RedactionScope]


class NoteBuffer:
    def __init__(
        self,
        max_notes: int = _MAX_NOTES,
        max_job_notes: int = _MAX_JOB_NOTES,
        max_characters: int = _MAX_CHARACTERS,
        max_job_characters: int = _MAX_JOB_CHARACTERS,
    ) -> None:
        self._max_notes, self._max_characters = max_notes, max_characters
        self._max_job_notes, self._max_job_characters = max_job_notes, max_job_characters
        self._queues: dict[LeaseKey, _JobNotes] = {}  # in round robin order, next first
        self._count = 0
        self._size = 0
        self.last = 0

    def __len__(self) -> int:
        return self._count

    def add(self, job: ClaimedJob, kind: str, data: dict[str, Json], scope: RedactionScope) -> None:
        """Keep the note; `take` redacts the scope's secrets in it."""
        key = job.job_id, job.lease
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _JobNotes()
        self.last += 1
        self._change(queue, *queue.add(self.last, Note(*job.token, kind, data), scope))
        while len(queue) > self._max_job_notes or (
            queue.size > self._max_job_characters and len(queue) > 1
        ):
            self._change(queue, -1, -queue.drop_one())
        while self._count > self._max_notes:
            longest = max(self._queues.values(), key=len)
            self._change(longest, -1, -longest.drop_one())
        while self._size > self._max_characters:
            heaviest = max(self._queues.values(), key=attrgetter("size"))
            self._change(heaviest, -1, -heaviest.drop_one())

    def has_notes_until(self, number: int) -> bool:
        """Whether notes with this number or a lower one are left."""
        return any(queue.first <= number for queue in self._queues.values() if queue)

    async def take(self) -> list[Note]:
        """Take the notes of the next batch, redacted: oldest first, round robin over the jobs."""
        weight, taken = self._take()
        return await run_off_loop(weight, _redact_notes, taken)

    def _take(self) -> tuple[int, list[ScopedNote]]:
        taken: list[ScopedNote] = []
        weight = 0
        while self._queues and len(taken) < _LARGEST_BATCH and weight < _MAX_BATCH_CHARACTERS:
            key = next(iter(self._queues))
            queue = self._queues.pop(key)
            if not queue:
                continue
            if queue.dropped:
                taken.append(queue.report_dropped())
            scoped_note, size = queue.take()
            self._count -= 1
            self._size -= size
            taken.append(scoped_note)
            weight += size
            if queue:
                self._queues[key] = queue
        return weight, taken

    def _change(self, queue: "_JobNotes", count: int, weight: int) -> None:
        self._count += count
        self._size += weight
        queue.size += weight


class _JobNotes:
    """The notes of one attempt by number, oldest first."""

    __slots__ = ("_logs", "_notes", "_progress", "dropped", "size")

    def __init__(self) -> None:
        self._notes: dict[int, tuple[ScopedNote, int]] = {}
        self._logs: deque[int] = deque()
        self._progress = 0
        self.dropped = 0
        self.size = 0

    def __len__(self) -> int:
        return len(self._notes)

    @property
    def first(self) -> int:
        return next(iter(self._notes))

    def add(self, number: int, note: Note, scope: RedactionScope) -> tuple[int, int]:
        """Add the note; return the changes of the notes' count and total size."""
        weight = _estimate_size(note.data)
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
        """Drop the oldest log line, or the oldest note if there is none; return its size."""
        self.dropped += 1
        while self._logs:
            dropped = self._notes.pop(self._logs.popleft(), None)
            if dropped is not None:
                return dropped[1]
        return self._notes.pop(self.first)[1]

    def take(self) -> tuple[ScopedNote, int]:
        scoped_note, weight = self._notes.pop(self.first)
        self.size -= weight
        return scoped_note, weight

    def report_dropped(self) -> ScopedNote:
        """Return a log line that reports the dropped notes, and reset their count."""
        dropped, self.dropped = self.dropped, 0
        (note, scope), _ = self._notes[self.first]
        logs.emit("notes.dropped", level="warning", job_id=note.job_id, notes=dropped)
        message = f"{dropped:,} lines dropped: the job wrote them faster than they can be stored"
        return note._replace(kind="log", data={"level": "warning", "message": message}), scope


def _redact_notes(scoped_notes: list[ScopedNote]) -> list[Note]:
    return [note._replace(data=redact(note.data, scope)) for note, scope in scoped_notes]


def _estimate_size(value: Json) -> int:
    """Estimate the number of characters; stop counting at the limit of a job's notes.

    The limit also ends the count in cyclic data.
    """
    weight, left = 0, [value]
    while left and weight <= _MAX_JOB_CHARACTERS:
        each = left.pop()
        if isinstance(each, dict):
            weight += sum(map(len, map(str, each)))
            left += each.values()
        elif isinstance(each, list):
            left += each
        weight += len(each) if isinstance(each, str) else 8
    return weight
