"""Dead jobs, as tests of failures and operations need them."""

from uuid import UUID

from cluster import Connection
from sql.engine import TENANT_A, Json, Row, claim, complete, enqueue, new_worker


def run_all(
    conn: Connection, outcome: str, n: int, *, queue: str = "default", **fields: Json
) -> list[UUID]:
    """Runs up to n ready jobs of a queue to this end, of whatever tenant."""
    worker = new_worker()
    rows: list[Row] = claim(conn, worker, queue, n)
    complete(conn, worker, rows, outcome, **fields)
    return [row["job_id"] for row in rows]


def kill(
    conn: Connection,
    n: int = 1,
    tenant: UUID = TENANT_A,
    *,
    message: str = "no",
    queue: str = "default",
    **options: Json,
) -> list[UUID]:
    """Jobs that died of the same, oldest first."""
    jobs = enqueue(conn, tenant, n, queue=queue, **options)
    error = {"type": "Oops", "message": message}
    assert set(run_all(conn, "failed", n, queue=queue, error=error, final=True)) == set(jobs)
    return jobs
