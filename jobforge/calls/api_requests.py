"""Calls that the HTTP server runs per request: rate limits, idempotency, audit of operators."""

from collections.abc import Sequence
from uuid import UUID

from jobforge.calls.call import Call, build_call
from jobforge.calls.json_arguments import encode_jobs
from jobforge.calls.results import NOTHING, STATUSES, Result, one
from jobforge.types.api_requests import Allowance, EnqueuedOnce
from jobforge.types.jobs import JobRequest


def take_request(bucket: str, *, rate: float, burst: int) -> Call[Allowance]:
    """Take a token from a bucket with `rate` tokens per second and room for `burst`."""
    return build_call("take_request", one(Allowance), bucket=bucket, rate=rate, burst=burst)


def enqueue_jobs_once(
    jobs: Sequence[JobRequest],
    *,
    request_key: str,
    body_hash: bytes,
    tenant_id: UUID | None = None,
) -> Call[list[EnqueuedOnce]]:
    """Enqueue jobs; a duplicate of the key and body returns the first result for 24 hours.

    Raises IdempotencyKeyReused for the same key with another body.
    """
    return build_call(
        "enqueue_jobs_once",
        _ENQUEUED_ONCE,
        request_key=request_key,
        body_hash=body_hash,
        jobs=encode_jobs(jobs),
        tenant_id=tenant_id,
    )


def note_access(
    action: str, *, target: str | None = None, tenant_id: UUID | None = None
) -> Call[None]:
    """Record in the tenant's audit log that an operator acts for the tenant."""
    return build_call("note_access", NOTHING, action=action, target=target, tenant_id=tenant_id)


_ENQUEUED_ONCE: Result[list[EnqueuedOnce]] = Result(
    "index, job_id, status, replayed",
    lambda rows: [
        EnqueuedOnce(job_id, STATUSES[status], replayed) for _, job_id, status, replayed in rows
    ],
)
