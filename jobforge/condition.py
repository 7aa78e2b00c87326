"""The condition of an installation in the engine's own words: gauges, troubles, applied files."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID


class Gauge(NamedTuple):
    """A number that read_gauges has; `subject` is a queue, a tenant, a table or a task."""

    gauge: str
    subject: str | None
    state: str | None
    value: float


class Trouble(NamedTuple):
    """Something that does not go on by itself.

    `kind` is unserved, overdue, faulty, webhook, event or operation; find_troubles.sql says what
    subject and detail are.
    """

    kind: str
    subject: str
    tenant_id: UUID | None
    since: datetime
    detail: str


class AppliedFile(NamedTuple):
    name: str
    checksum: str
    applied_at: datetime
