"""The live stream as data: what happened, in which order, and a reader's position.

A position is an opaque string that the engine creates and parses. Clients only send it back;
servers also compare positions.
"""

from datetime import datetime
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from jobforge.errors import Json


class Happening(NamedTuple):
    """A finished attempt (`kind` is attempt) or a note about a job (event).

    `name` is the outcome or the note's kind; `state` is the job's state afterwards.
    """

    position: str
    tenant_id: UUID
    kind: str
    name: str
    job_id: UUID
    definition: str | None
    queue: str | None
    state: str | None
    attempt: int | None
    at: datetime
    actor: str | None
    data: Json


class StreamPage(NamedTuple):
    """Everything up to `position`; `is_complete` if there is no more for now."""

    happenings: list[Happening]
    position: str
    is_complete: bool


class QueueCount(NamedTuple):
    """Number of a tenant's jobs in one state and queue; counts only the oldest 10,000 jobs."""

    tenant_id: UUID
    queue: str
    state: str
    jobs: int
    oldest_queued_at: datetime | None
    is_exact: bool


StreamPosition = tuple[int, int, str, int]


@lru_cache(maxsize=4096)
def parse_position(position: str) -> StreamPosition:
    """Return a sort key in the engine's order. Raises ValueError for an invalid position."""
    txid, at, *row = position.split(":")
    if not row:  # the position before the transaction's first row
        return int(txid), -1, "", 0
    kind, n = row
    return int(txid), int(at), kind, int(n)
