"""What the HTTP API asks of the engine for each request: rate limits, repeated requests."""

from typing import NamedTuple
from uuid import UUID

from jobforge.types.jobs import EnqueueStatus


class Allowance(NamedTuple):
    """Whether a request may go on, and if not, in how many seconds to try again."""

    allowed: bool
    retry_after_s: float


class EnqueuedOnce(NamedTuple):
    job_id: UUID
    status: EnqueueStatus
    replayed: bool  # an earlier request with the same key had this answer
