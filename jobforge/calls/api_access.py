"""Calls that the server makes for each request: its rate, its idempotency, its place in the log."""

from collections.abc import Sequence
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.json_arguments import encode_jobs
from jobforge.calls.rows import STATUSES, Rows
from jobforge.types.api_access import Allowance, EnqueuedOnce
from jobforge.types.jobs import JobRequest


def take_request(bucket: str, *, rate: float, burst: int) -> Call[Allowance]:
    """`rate` requests per second, and up to `burst` at once."""
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
    """enqueue_jobs; the same key and body again have the same answer, for 24 hours.

    Raises IdempotencyKeyReused for another body.
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
    """Writes into the tenant's audit log that an operator acts for it."""
    return Call(
        "select jobforge.note_access(%s, %s, %s)", (action, target, tenant_id), rows.nothing
    )


def _allowance(rows: Rows) -> Allowance:
    return Allowance(*rows[0])


def _enqueued_once(rows: Rows) -> list[EnqueuedOnce]:
    return [
        EnqueuedOnce(job_id, STATUSES[status], replayed) for _, job_id, status, replayed in rows
    ]
