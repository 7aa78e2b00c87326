"""Reads the notes of one job in order, page by page, and returns each note once."""

from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from jobforge.calls.call import Call
from jobforge.calls.jobs import list_notes
from jobforge.errors import Invalid
from jobforge.types.job_history import JobEvent

NOTE_KINDS = ("progress", "log", "event")

_PAGE = 1000
# Transactions may commit out of order, so each read starts this much before the newest note.
_LATE_COMMIT_WINDOW = timedelta(seconds=5)

NoteKey = tuple[datetime, str, str]


class JobLogReader:
    """Reads one job's notes. `after` is the time after which the next read starts."""

    def __init__(
        self,
        job_id: UUID,
        *,
        kinds: Sequence[str] = NOTE_KINDS,
        after: datetime | None = None,
        tenant_id: UUID | None = None,
    ) -> None:
        if after is not None and after.tzinfo is None:
            raise Invalid("after must have a time zone", field="after")
        self.after = after
        self.has_more = False  # whether the last page was full
        self._job_id = job_id
        self._kinds = kinds
        self._tenant_id = tenant_id
        self._page_end: datetime | None = None
        self._returned: OrderedDict[NoteKey, None] = OrderedDict()  # those later than `after`

    def build_call(self) -> Call[list[JobEvent]]:
        """Return the call for the next page."""
        return list_notes(
            self._job_id,
            after=self._page_end or self.after,
            kinds=self._kinds,
            limit=_PAGE,
            tenant_id=self._tenant_id,
        )

    def take_new(self, page: Sequence[JobEvent]) -> list[JobEvent]:
        """Return the notes of a page that were not returned before."""
        new = [note for note in page if _key(note) not in self._returned]
        self._returned.update((_key(note), None) for note in new)
        newest = page[-1].at if page else self._page_end
        self.has_more = len(page) == _PAGE
        self._page_end = newest if self.has_more else None
        if newest is not None and not self.has_more:
            self._advance(newest - _LATE_COMMIT_WINDOW)
        return new

    def _advance(self, after: datetime) -> None:
        if self.after is not None and after <= self.after:
            return
        self.after = after
        while self._returned and next(iter(self._returned))[0] <= after:
            self._returned.popitem(last=False)


def _key(note: JobEvent) -> NoteKey:
    return note.at, note.kind, repr(note.data)
