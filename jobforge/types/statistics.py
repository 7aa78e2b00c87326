"""What ended attempts add up to, as data."""

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Statistic:
    """All attempts that ended in one step of time, of one definition or queue or of all.

    `failed` are those to be tried again, `died` the last ones of their jobs, `handed_back` those
    released or snoozed. Times and memory are of all of them.
    """

    at: datetime
    definition: str | None
    queue: str | None
    attempts: int
    succeeded: int
    failed: int
    died: int
    canceled: int
    handed_back: int
    wait_ms: int
    run_ms: int
    cpu_ms: int
    peak_memory_bytes: int | None
    wait_p50_ms: float | None
    wait_p95_ms: float | None
    run_p50_ms: float | None
    run_p95_ms: float | None


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tenant used; one without settings has no slug."""

    tenant_id: UUID
    slug: str | None
    attempts: int
    run_s: float
    cpu_s: float
    peak_memory_bytes: int | None


def usage_as_csv(used: Iterable[Usage]) -> str:
    """A line for each tenant, below the names of the columns."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([field.name for field in fields(Usage)])
    writer.writerows(map(astuple, used))
    return text.getvalue()
