"""The engine's locks are rows that only the engine can lock.

Any login of a database can take any advisory lock, and see the advisory locks of others. When the
engine used advisory locks, a login that took them blocked capped jobs, schedules, registrations and
maintenance.
"""

import pytest
from attacks import Attempts
from cluster import Connect, Connection, Database, connect_to, wait_until
from sql.engine import (
    TENANT_A,
    call,
    call_for_value,
    claim,
    definition,
    enqueue,
    new_worker,
    refused,
)

from jobforge.db.migrate import migrate, repair
from jobforge.db.schema_files import ADVISORY_LOCK

attack = pytest.mark.attack("advisory locks")

NAMES = (
    "declared",
    "partitions",
    "scheduler",
    "statistics",
    "registration:test",
    f"triggers:{TENANT_A}",
    f"webhooks:{TENANT_A}",
)
LOGINS = ("client_login", "service_login", "worker_login", "admin_login", "server_login")


def take_advisory_locks(unprivileged: Connection, conn: Connection, *names: str) -> None:
    """Take every advisory lock that the engine ever used, until the session ends."""
    limits = [f"limit:{each}" for each in _limits(conn)]
    for name in (*NAMES, *limits, *names):
        unprivileged.execute(
            "select pg_advisory_lock(hashtextextended(%s, 0))", [f"jobforge:{name}"]
        )
    unprivileged.execute("select pg_advisory_lock(%s)", [ADVISORY_LOCK])


def _limits(conn: Connection) -> list[str]:
    rows = conn.execute(
        "select l.subject from jobforge_private.group_limits('default', %s, 'test', 'k') as l",
        [TENANT_A],
    )
    return [row["subject"] for row in rows]


@pytest.fixture
def unprivileged(conn: Connection, connect: Connect) -> Connection:
    """A login with no right except to connect."""
    conn.execute(
        """
        do $$ begin create role outsider_login login;
        exception when duplicate_object or unique_violation then null; end $$
        """
    )
    return connect("outsider_login")


@attack
def test_advisory_locks_do_not_block_capped_jobs(
    conn: Connection, unprivileged: Connection
) -> None:
    definition(conn, max_running=5, max_running_per_key=5, rate_limit=100, rate_period_s=1)
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"max_running": 5})
    call(conn, "put_queue", queue="default", settings={"max_running": 5})
    enqueue(conn, n=3, limit_key="k")
    assert len(_limits(conn)) >= 4
    take_advisory_locks(unprivileged, conn)
    assert len(claim(conn, new_worker(), limit=10)) == 3


@attack
def test_advisory_locks_block_no_maintenance_and_no_operator(
    conn: Connection, unprivileged: Connection, attempts: Attempts
) -> None:
    conn.execute("set lock_timeout = '2s'")
    definition(conn)
    event = call_for_value(conn, "emit_event", name="order.paid", data={}, tenant_id=TENANT_A)
    workflow = call(
        conn,
        "enqueue_workflow",
        workflow={"nodes": [{"name": "only", "definition": "test"}]},
        tenant_id=TENANT_A,
    )[0]["workflow_id"]
    call(conn, "cancel_workflow", id=workflow, tenant_id=TENANT_A)
    take_advisory_locks(unprivileged, conn, f"replay:{event}", f"workflow:{workflow}")

    assert call_for_value(conn, "ensure_partitions", days=9) > 0
    assert call_for_value(conn, "apply_retention") != {}
    assert call_for_value(conn, "record_firings", plans="[]") is not None
    worker = new_worker()
    enqueue(conn)
    held = claim(conn, worker, limit=10)
    call(
        conn,
        "succeed_jobs",
        worker_id=worker,
        tenants=[row["tenant_id"] for row in held],
        jobs=[row["job_id"] for row in held],
        leases=[row["lease"] for row in held],
    )
    # Attempts are added up once no older transaction of the cluster, such as a vacuum, is open.
    wait_until(lambda: call_for_value(conn, "roll_up_statistics") > 0)
    call(conn, "put_definition", key="test", version=2, settings={"max_attempts": 3})
    call(conn, "override_definition", key="test", overrides={"max_attempts": 2})
    call(conn, "pause_definition", key="test")
    call(conn, "resume_definition", key="test")
    call(conn, "declare_triggers", declared="[]", definitions=["test"])
    schedule = {"label": "daily", "definition": "test", "cron": "@daily"}
    call(conn, "create_trigger", type="schedule", settings=schedule, tenant_id=TENANT_A)
    call(conn, "replay_event", id=event, tenant_id=TENANT_A)
    call(conn, "retry_workflow", id=workflow, tenant_id=TENANT_A)
    attempts(12)


@attack
def test_advisory_locks_do_not_block_migrations(
    database: Database, conn: Connection, unprivileged: Connection
) -> None:
    take_advisory_locks(unprivileged, conn)
    with connect_to(database.url) as own:
        own.execute("set lock_timeout = '2s'")
        assert migrate(own) == []
        assert repair(own) == []


@attack
def test_no_login_can_lock_a_row_that_represents_a_lock(
    connect: Connect, attempts: Attempts
) -> None:
    statements = (
        "select from jobforge.locks for update",
        "select from jobforge.locks for key share",
        "delete from jobforge.locks",
        "insert into jobforge.locks values (gen_random_uuid(), 'mine')",
        "lock table jobforge.locks in row share mode",
        "lock table jobforge.locks",
        "lock table jobforge.migrations in row exclusive mode",
        "select jobforge_private.acquire_lock('scheduler')",
        "select jobforge_private.try_lock('scheduler')",
    )
    for login in LOGINS:
        conn = connect(login)
        for statement in statements:
            with refused("42501"), conn.transaction():
                conn.execute(statement.encode())
    attempts(len(LOGINS) * len(statements))


def test_a_missing_lock_row_is_created_again(conn: Connection, connect: Connect) -> None:
    """Rows are missing after a restore without the rows of the table."""
    conn.execute("delete from jobforge.locks")
    definition(conn, max_running=1)
    enqueue(conn, n=2)
    assert len(claim(conn, new_worker(), limit=10)) == 1
    holder, other = connect(autocommit=False), connect(autocommit=False)
    for take in ("select jobforge_private.try_lock('scheduler') as taken",) * 2:
        assert holder.execute(take).fetchall() == [{"taken": True}]
    holder.commit()
    assert holder.execute("select jobforge_private.try_lock('scheduler') as taken").fetchall() == [
        {"taken": True}
    ]
    assert other.execute("select jobforge_private.try_lock('scheduler') as taken").fetchall() == [
        {"taken": False}
    ]
    holder.rollback()
    other.rollback()
    assert other.execute("select jobforge_private.try_lock('scheduler') as taken").fetchall() == [
        {"taken": True}
    ]
    other.rollback()
