"""Groups of dead jobs that failed in the same way."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jsonb import given_fields


@dataclass(frozen=True, slots=True)
class FailureFilter:
    """Filter of failure groups; a group must match all fields that are set."""

    definition: str | None = None
    queue: str | None = None
    since: datetime | None = None

    def to_json(self) -> dict[str, Json]:
        return given_fields(self)


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Dead jobs with one fingerprint, and the operators' notes. The count `jobs` stops at 10,000.

    `hourly`: jobs that died in each of the last 24 hours, the current hour last. `versions`: of the
    definition. `build`: of the worker where the sample died, if still known. `has_recurred`: the
    failure recurred in the build in which it was marked as resolved, or a later one.
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
    has_recurred: bool
