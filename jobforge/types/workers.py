"""Workers, for operators."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker; `state` is live, draining, stopping, stale or stopped.

    `memory_bytes` and `clock_skew_s` (positive if its clock is ahead, approximate) are from its
    last heartbeat.
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
    isolation: str | None = None  # isolation level of its jobs
