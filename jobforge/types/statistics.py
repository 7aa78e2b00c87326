"""Statistics of finished attempts, as data."""

import csv
import io
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Statistic:
    """Totals of the attempts that finished in one time step, optionally by definition or queue.

    `failed`: attempts that will be retried. `dead`: the last attempts of dead jobs. `released`:
    attempts that were released or snoozed. Times and memory cover all attempts.
    """

    at: datetime
    definition: str | None
    queue: str | None
    attempts: int
    succeeded: int
    failed: int
    dead: int
    canceled: int
    released: int
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
    """A tenant's usage; `slug` is None for a tenant without settings."""

    tenant_id: UUID
    slug: str | None
    attempts: int
    run_s: float
    cpu_s: float
    peak_memory_bytes: int | None


def usage_as_csv(used: Iterable[Usage]) -> str:
    """Return CSV with a header and one line per tenant."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow([field.name for field in fields(Usage)])
    writer.writerows(map(astuple, used))
    return text.getvalue()
