"""Calls that the HTTP server runs per request: rate limits, idempotency, audit of operators."""

from collections.abc import Sequence
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.json_arguments import encode_jobs
from jobforge.calls.rows import STATUSES, Rows
from jobforge.types.api_requests import Allowance, EnqueuedOnce
from jobforge.types.jobs import JobRequest


def take_request(bucket: str, *, rate: float, burst: int) -> Call[Allowance]:
    """Take a token from a bucket with `rate` tokens per second and room for `burst`."""
    return Call(
        "select allowed, retry_after_s from jobforge.take_request(%s, %s::float8, %s::integer)",
        (bucket, rate, burst),
        _allowance,
    )


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
    return Call(
        """
        select index, job_id, status, replayed
          from jobforge.enqueue_jobs_once(%s, %s, %s::jsonb, %s)
        """,
        (request_key, body_hash, encode_jobs(jobs), tenant_id),
        _enqueued_once,
    )


def note_access(
    action: str, *, target: str | None = None, tenant_id: UUID | None = None
) -> Call[None]:
    """Record in the tenant's audit log that an operator acts for the tenant."""
    return Call(
        "select jobforge.note_access(%s, %s, %s)", (action, target, tenant_id), rows.nothing
    )


def _allowance(rows: Rows) -> Allowance:
    return Allowance(*rows[0])


def _enqueued_once(rows: Rows) -> list[EnqueuedOnce]:
    return [
        EnqueuedOnce(job_id, STATUSES[status], replayed) for _, job_id, status, replayed in rows
    ]
