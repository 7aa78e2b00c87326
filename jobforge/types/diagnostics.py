"""The condition of an installation in the engine's own words: gauges, troubles, applied files."""

from datetime import datetime
from typing import Literal, NamedTuple
from uuid import UUID


class Gauge(NamedTuple):
    """A number that read_gauges has; read_gauges.sql says what subject and state are."""

    gauge: str
    subject: str | None
    state: str | None
    value: float


class Trouble(NamedTuple):
    """Something that does not go on by itself.

    `kind` is unserved, overdue, faulty, webhook, event, operation or blocked; find_problems.sql
    says what subject and detail are. From find_unreadable it is job, removed or a table;
    find_unreadable.sql says what subject and detail are.
    """

    kind: str
    subject: str
    tenant_id: UUID | None
    since: datetime
    detail: str


class Miss(NamedTuple):
    """A time of a schedule that made no job; `outcome` is skipped or failed."""

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
    """A process and its artifact store; without a `store_id` it has none."""

    store_id: UUID | None
    kind: StoreKind
    host: str
    pid: int | None
    location: str | None
    seen_at: datetime

    def describe(self) -> str:
        return f"{self.kind} {self.pid} on {self.host}: {self.location or 'none'}"
