"""Create dead jobs for tests of failures and operations."""

from uuid import UUID

from cluster import Connection
from sql.engine import TENANT_A, Json, Row, claim, complete, enqueue, new_worker


def run_all(
    conn: Connection,
    outcome: str,
    n: int,
    *,
    queue: str = "default",
    worker: UUID | None = None,
    **fields: Json,
) -> list[UUID]:
    """Run up to n ready jobs of a queue, of any tenant, to this outcome."""
    worker = worker or new_worker()
    rows: list[Row] = claim(conn, worker, queue, n)
    complete(conn, worker, rows, outcome, **fields)
    return [row["job_id"] for row in rows]


def create_dead_jobs(
    conn: Connection,
    n: int = 1,
    tenant: UUID = TENANT_A,
    *,
    message: str = "no",
    queue: str = "default",
    worker: UUID | None = None,
    **options: Json,
) -> list[UUID]:
    """Create jobs that failed with the same error, oldest first."""
    jobs = enqueue(conn, tenant, n, queue=queue, **options)
    error = {"type": "Oops", "message": message}
    dead = run_all(conn, "failed", n, queue=queue, worker=worker, error=error, final=True)
    assert set(dead) == set(jobs)
    return jobs
