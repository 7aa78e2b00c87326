"""Groups of dead jobs that failed in the same way."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jsonb import given_fields


@dataclass(frozen=True, slots=True)
class FailureFilter:
    """Which groups of dead jobs; all that is given must hold."""

    definition: str | None = None
    queue: str | None = None
    since: datetime | None = None

    def to_json(self) -> dict[str, Json]:
        return given_fields(self)


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Dead jobs of one fingerprint, and what people know of them. `jobs` stops at 10,000.

    `hourly` is how many died in each of the last 24 hours, the present one last; `versions` are
    of the definition. `build` is the worker's where the sample died, while that is known; the
    failure `is_back` when that is the build it is resolved in, or a later one.
    """

    fingerprint: str
    definition: str
    jobs: int
    first_seen: datetime
    last_seen: datetime
    sample_job_id: UUID
    error: dict[str, Json] | None
    note: str | None
    snoozed_until: datetime | None
    resolved_in: str | None
    versions: list[int]
    hourly: list[int]
    build: str | None
    is_back: bool
