"""Groups of dead jobs that failed in the same way."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jsonb import JsonFields


@dataclass(frozen=True, slots=True)
class FailureFilter(JsonFields):
    """Filter of failure groups; a group must match all fields that are set."""

    definition: str | None = None
    queue: str | None = None
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Dead jobs with one fingerprint, and the operators' notes. The count `jobs` stops at 10,000.

    `hourly` is the number of jobs that became dead in each of the last 24 hours, ending with the
    current hour. `versions` lists the definition versions of these jobs. `build` is the build of
    the worker that ran the sample job, if it is still known. `has_recurred` is true if the failure
    recurred in the build in which it was marked as resolved, or in a later one.
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
