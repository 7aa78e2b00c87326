"""The maintenance that a scheduler runs automatically."""

from datetime import timedelta
from typing import Any, get_args

import pytest
from cluster import Clock, Connection, Database
from integration.call_setup import TENANT_A, WORKER
from integration.worker_harness import eventually, running_scheduler
from sql import engine
from sql.mutation import mutate

from jobforge import calls, db
from jobforge.calls.admin import RetentionKind
from jobforge.scheduler import maintenance

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_SOON_S", 0.0)
    monkeypatch.setattr(maintenance, "_LATER_S", 0.0)


def end(conn: Connection, outcome: str = "succeeded", **fields: Any) -> None:
    engine.enqueue_one(conn)
    engine.complete(conn, WORKER, engine.claim(conn, WORKER), outcome, **fields)


def counts(conn: Connection, *tables: str) -> dict[str, int]:
    return {table: engine.count(conn, table) for table in tables}


async def test_a_scheduler_deletes_old_rows_and_creates_partitions(
    database: Database, conn: Connection, clock: Clock
) -> None:
    engine.definition(conn)
    end(conn)
    end(conn, "failed", final=True)
    [dead] = conn.execute("select id, fingerprint from jobforge.jobs").fetchall()
    engine.call(
        conn,
        "annotate_failure",
        fingerprint=dead["fingerprint"],
        changes={"note": "known"},
        tenant_id=TENANT_A,
    )
    for name, expires_at in (("old", clock.now() + timedelta(days=1)), ("lasting", None)):
        engine.call(
            conn,
            "create_api_key",
            name=name,
            role="viewer",
            lookup=name.ljust(8, "-"),
            hash=name.encode().ljust(32),
            expires_at=expires_at,
            tenant_id=TENANT_A,
        )
    clock.travel(days=20)
    end(conn)
    # All rows are older than the history retention, and the dead job and its note older than
    # theirs.
    assert engine.count(conn, "attempts_default") == 1
    async with running_scheduler(database, history_days=7, dead_days=10):
        await eventually(lambda: engine.count(conn, "api_keys") == 1)
        await eventually(lambda: engine.count(conn, "attempts_default") == 0)
        await eventually(lambda: engine.count(conn, "attempts") == 1)
        await eventually(lambda: engine.count(conn, "failure_notes") == 0)
    assert counts(conn, "finished_jobs", "jobs", "failure_notes") == {
        "finished_jobs": 1,
        "jobs": 0,
        "failure_notes": 0,
    }
    [kept] = conn.execute("select name from jobforge.api_keys").fetchall()
    assert kept["name"] == "lasting"


async def test_a_scheduler_frees_blocked_jobs_whose_parents_have_all_ended(
    database: Database, conn: Connection
) -> None:
    engine.definition(conn)
    parent = engine.enqueue_one(conn, delay_s=3600)
    child = engine.enqueue_one(conn, after=[str(parent)])
    waiting = engine.enqueue_one(conn, after=[str(parent)])
    conn.execute("delete from jobforge.awaited_jobs where waiter_id = %s", [child])
    async with running_scheduler(database):
        await eventually(lambda: engine.state_of(conn, TENANT_A, child) == "queued")
    assert engine.state_of(conn, TENANT_A, waiting) == "blocked"


async def test_a_scheduler_aggregates_finished_attempts(
    database: Database, conn: Connection
) -> None:
    engine.definition(conn)
    end(conn)
    async with running_scheduler(database):
        await eventually(lambda: engine.count(conn, "minute_statistics") == 1)


async def test_a_note_about_a_failure_group_is_kept_while_it_has_a_dead_job(
    conn: Connection, clock: Clock
) -> None:
    engine.definition(conn)
    end(conn, "failed", final=True, error={"type": "E", "message": "m"})
    [dead] = conn.execute("select fingerprint from jobforge.jobs").fetchall()
    change = {"fingerprint": dead["fingerprint"], "changes": {"note": "known"}}
    engine.call(conn, "annotate_failure", **change, tenant_id=TENANT_A)
    clock.travel(days=50)
    end(conn, "failed", final=True, error={"type": "E", "message": "m"})
    clock.travel(days=50)
    gone = engine.call_for_value(conn, "apply_retention")
    assert (gone["dead_jobs"], gone["failure_notes"]) == (1, 0)


async def test_more_rows_than_one_call_handles_are_deleted_and_aggregated_in_one_run(
    database: Database, conn: Connection, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_REMOVED_AT_ONCE", 1)
    monkeypatch.setattr(maintenance, "_ADDED_AT_ONCE", 1)
    engine.definition(conn)
    for _ in range(3):
        end(conn, "failed", final=True)
    clock.travel(days=8)
    async with running_scheduler(database, dead_days=7):
        await eventually(lambda: engine.count(conn, "jobs") == 0)
        await eventually(lambda: died(conn) == 3)


def died(conn: Connection) -> int:
    [row] = conn.execute(
        "select coalesce(sum(dead), 0)::integer as n from jobforge.minute_statistics"
    ).fetchall()
    return int(row["n"])


async def test_retention_has_a_longer_statement_timeout(
    database: Database, conn: Connection
) -> None:
    answer = "'partitions', jobforge_private.drop_history("
    reported = f"'bound', current_setting('statement_timeout'), {answer}"
    mutate(conn, "apply_retention", answer, reported)
    async with db.Database(database.url_as("worker_login")) as pool:
        assert (await pool.run(calls.apply_retention()))["bound"] == "10min"


async def test_a_killed_session_aborts_one_sweep_and_no_other(
    database: Database, conn: Connection, clock: Clock
) -> None:
    engine.definition(conn)
    end(conn)
    end(conn, "failed", final=True)
    engine.enqueue_one(conn, key="k", key_mode="window", key_window_s=60)
    engine.call(conn, "register_worker", worker_id=WORKER, queues=["q"], slots=1)
    clock.travel(days=100)
    mutate(conn, "sweep", SECOND, f"{SECOND} perform pg_sleep(3600);")
    async with running_scheduler(database):
        await eventually(lambda: bool(sleepers(conn)))
        kept = counts(conn, "finished_jobs", "idempotency_keys", "workers")
        for pid in sleepers(conn):
            conn.execute("select pg_terminate_backend(%s)", [pid])
        await eventually(lambda: engine.count(conn, "workers") == 0)
    assert kept == {"finished_jobs": 0, "idempotency_keys": 1, "workers": 1}, "history goes first"
    assert [each["state"] for each in engine.call(conn, "list_jobs", tenant_id=TENANT_A)] == [
        "queued"
    ]
    assert engine.count(conn, "idempotency_keys") == 1
    mutate(conn, "sweep", f"{SECOND} perform pg_sleep(3600);", SECOND)
    gone = engine.call_for_value(conn, "apply_retention", kind="idempotency_keys")
    assert gone == {"idempotency_keys": 1}


SECOND = "when 'idempotency_keys' then"  # the second sweep


def sleepers(conn: Connection) -> list[int]:
    rows = conn.execute(
        "select pid from pg_stat_activity where wait_event = 'PgSleep'"
        " and datname = current_database()"
    ).fetchall()
    return [row["pid"] for row in rows]


def test_the_kinds_of_sweeps_cover_all_of_maintenance(conn: Connection) -> None:
    together = engine.call_for_value(conn, "apply_retention")
    apart = [
        engine.call_for_value(conn, "apply_retention", kind=kind)
        for kind in get_args(RetentionKind)
    ]
    assert [list(each) for each in apart] == [[kind] for kind in get_args(RetentionKind)]
    assert set(together) == set(get_args(RetentionKind))
