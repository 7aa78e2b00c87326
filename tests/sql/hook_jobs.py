"""Jobs whose definition has hooks, the jobs that follow them, and what must not be followed."""

from uuid import UUID

from cluster import Connection
from sql.engine import TENANT_A, Json, Row, call, complete, definition, enqueue_one, new_worker
from sql.uncached_claim import claim


def with_hooks(conn: Connection) -> None:
    """`test` has hooks, which run in a queue of their own, and two attempts."""
    definition(conn, hooks=True, max_attempts=2, backoff_base_s=60)
    definition(conn, "test:hooks", queue="hooks")


def followers(conn: Connection, tenant: UUID = TENANT_A) -> list[Row]:
    """The hooks jobs of a tenant, in the order in which they were made."""
    return conn.execute(
        """
        select * from jobforge.all_jobs
         where tenant_id = %s and definition like '%%:hooks' order by id
        """,
        [tenant],
    ).fetchall()


def run_once(conn: Connection, outcome: str, **fields: Json) -> None:
    """Claims the next job and ends its attempt."""
    worker = new_worker()
    [answer] = complete(conn, worker, claim(conn, worker), outcome, **fields)
    assert answer["status"] == "ok"


def check_a_retry_is_not_followed(conn: Connection) -> None:
    enqueue_one(conn)
    run_once(conn, "failed")
    assert followers(conn) == []


def check_a_discarded_job_is_not_followed_again(conn: Connection) -> None:
    job = enqueue_one(conn)
    run_once(conn, "failed", final=True)
    call(conn, "cancel_job", job_id=job, tenant_id=TENANT_A)
    assert [follower["payload"]["state"] for follower in followers(conn)] == ["dead"]
