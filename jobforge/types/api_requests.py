"""Results that the HTTP API needs per request: rate limits, duplicate requests."""

from typing import NamedTuple
from uuid import UUID

from jobforge.types.jobs import EnqueueStatus


class Allowance(NamedTuple):
    """Whether a request is allowed and, if not, after how many seconds to retry."""

    allowed: bool
    retry_after_s: float


class EnqueuedOnce(NamedTuple):
    job_id: UUID
    status: EnqueueStatus
    replayed: bool  # result of an earlier request with the same key
