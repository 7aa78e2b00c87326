"""Workers as operators see them."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker as operators see it: live, draining, stopping, stale or stopped.

    Its memory, and by about how much its clock is ahead, are of its last heartbeat.
    """

    id: UUID
    state: str
    host: str | None
    pid: int | None
    build: str | None
    queues: list[str]
    definitions: list[str] | None
    slots: int
    running: int
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None
    memory_bytes: int | None
    clock_skew_s: float | None
    isolation: str | None = None  # the level at which its jobs are isolated
