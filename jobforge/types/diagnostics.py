"""State of an installation: gauges, problems, missed runs, applied files, artifact stores."""

from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID


class Gauge(NamedTuple):
    """A metric from read_gauges; read_gauges.sql defines subject and state."""

    gauge: str
    subject: str | None
    state: str | None
    value: float


class InstallationProblem(NamedTuple):
    """A problem that does not resolve itself.

    From find_problems, `kind` is unserved, overdue, faulty, webhook, event, operation or blocked;
    find_problems.sql defines subject and detail. From find_unreadable, it is job, removed or a
    table; find_unreadable.sql defines subject and detail.
    """

    kind: str
    subject: str
    tenant_id: UUID | None
    since: datetime
    detail: str


class MissedRun(NamedTuple):
    """A scheduled time without a job; `outcome` is skipped or failed."""

    tenant_id: UUID
    trigger_id: UUID
    label: str
    fire_at: datetime
    at: datetime
    kind: str
    outcome: str
    reason: str


class AppliedFile(NamedTuple):
    name: str
    checksum: str
    applied_at: datetime


StoreKind = Literal["app", "server", "worker"]


class StoreUser(NamedTuple):
    """A process and its artifact store; `store_id` is None if it has no store."""

    store_id: UUID | None
    kind: StoreKind
    host: str
    pid: int | None
    location: str | None
    seen_at: datetime

    def describe(self) -> str:
        return f"{self.kind} {self.pid} on {self.host}: {self.location or 'none'}"
