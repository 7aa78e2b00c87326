"""The live stream as data: what happened, in which order, and where a reader has come to.

A position is a text that the engine made and reads again. Clients only hand it back; servers also
compare two of them.
"""

from datetime import datetime
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

from jobforge.errors import Json


class Happening(NamedTuple):
    """An attempt that ended (`kind` is attempt), or something noted of a job (event).

    `name` is the outcome, or what was noted. The state is where the job went.
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
    """Everything up to `position`; `is_complete` when there is no more for now."""

    happenings: list[Happening]
    position: str
    is_complete: bool


class QueueCount(NamedTuple):
    """How many jobs of a tenant are in a state, in one queue; of many, only the oldest count."""

    tenant_id: UUID
    queue: str
    state: str
    jobs: int
    oldest_queued_at: datetime | None
    is_exact: bool


StreamPosition = tuple[int, int, str, int]


@lru_cache(maxsize=4096)
def parse_position(position: str) -> StreamPosition:
    """What orders positions as the engine does. Raises ValueError for a text that is none."""
    txid, at, *row = position.split(":")
    if not row:  # before everything of that transaction
        return int(txid), -1, "", 0
    kind, n = row
    return int(txid), int(at), kind, int(n)
