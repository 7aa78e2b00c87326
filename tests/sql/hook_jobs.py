"""Jobs whose definition has hooks, their hook jobs, and the cases that must have no hook job."""

from uuid import UUID

from cluster import Connection
from sql.engine import TENANT_A, Json, Row, call, complete, definition, enqueue_one, new_worker
from sql.uncached_claim import claim


def define_hooks(conn: Connection) -> None:
    """Give `test` hooks, which run in a separate queue, and two attempts."""
    definition(conn, hooks=True, max_attempts=2, backoff_base_s=60)
    definition(conn, "test:hooks", queue="hooks")


def list_hook_jobs(conn: Connection, tenant: UUID = TENANT_A) -> list[Row]:
    """Return the hook jobs of a tenant in the order of their creation."""
    return conn.execute(
        """
        select * from jobforge.all_jobs
         where tenant_id = %s and definition like '%%:hooks' order by id
        """,
        [tenant],
    ).fetchall()


def run_once(conn: Connection, outcome: str, **fields: Json) -> None:
    """Claim the next job and end its attempt."""
    worker = new_worker()
    [answer] = complete(conn, worker, claim(conn, worker), outcome, **fields)
    assert answer["status"] == "ok"


def check_a_retry_has_no_hook_job(conn: Connection) -> None:
    enqueue_one(conn)
    run_once(conn, "failed")
    assert list_hook_jobs(conn) == []


def check_a_discarded_job_has_no_second_hook_job(conn: Connection) -> None:
    job = enqueue_one(conn)
    run_once(conn, "failed", final=True)
    call(conn, "cancel_job", job_id=job, tenant_id=TENANT_A)
    assert [follower["payload"]["state"] for follower in list_hook_jobs(conn)] == ["dead"]
