"""Definitions: settings registered by code, overrides by operators, and the effective settings."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from cluster import Connect, Connection
from sql.engine import (
    TENANT_A,
    Row,
    call,
    claim,
    complete,
    definition,
    enqueue_one,
    job_of,
    new_worker,
    refused,
)


def effective(conn: Connection, key: str = "test", version: int = 1) -> Row:
    [row] = conn.execute(
        "select * from jobforge.definitions where key = %s and version = %s", [key, version]
    ).fetchall()
    return row


def override(conn: Connection, **overrides: Any) -> None:
    call(conn, "override_definition", key="test", overrides=overrides)


def test_a_definition_has_the_documented_defaults(conn: Connection) -> None:
    definition(conn)
    row = effective(conn)
    assert (row["queue"], row["timeout_s"], row["max_attempts"]) == ("default", 3600, 5)
    assert (row["backoff_base_s"], row["backoff_cap_s"], row["is_active"]) == (1, 3600, True)
    assert (row["max_running"], row["rate_limit"], row["rate_period_s"]) == (None, None, 1)


def test_settings_are_stored_and_a_setting_no_longer_given_is_removed(conn: Connection) -> None:
    schema = {"type": "object"}
    definition(conn, description="d", parameters=schema, queue="q", max_running=3, timeout_s=9)
    row = effective(conn)
    assert (row["description"], row["parameters"], row["queue"]) == ("d", schema, "q")
    assert (row["max_running"], row["timeout_s"]) == (3, 9)
    definition(conn)
    row = effective(conn)
    assert (row["description"], row["queue"]) == (None, "default")
    assert (row["max_running"], row["timeout_s"]) == (None, 3600)


def test_an_override_survives_registration(conn: Connection) -> None:
    definition(conn, timeout_s=10, max_attempts=3)
    override(conn, timeout_s=99, is_active=False)
    definition(conn, timeout_s=20, max_attempts=4)
    row = effective(conn)
    assert (row["timeout_s"], row["max_attempts"], row["is_active"]) == (99, 4, False)
    with refused("JF010"):
        enqueue_one(conn)


def test_an_override_applies_to_all_current_and_future_versions(conn: Connection) -> None:
    definition(conn, "test", 1, timeout_s=10)
    definition(conn, "test", 2, timeout_s=20)
    override(conn, timeout_s=99)
    definition(conn, "test", 3, timeout_s=30)
    assert [effective(conn, "test", v)["timeout_s"] for v in (1, 2, 3)] == [99, 99, 99]


def test_null_removes_an_override(conn: Connection) -> None:
    definition(conn, timeout_s=10)
    override(conn, timeout_s=99, max_running=2)
    override(conn, timeout_s=None)
    row = effective(conn)
    assert (row["timeout_s"], row["max_running"]) == (10, 2)
    assert row["overrides"] == {"max_running": 2}


def test_limits_of_the_newest_version_apply_to_all(conn: Connection) -> None:
    definition(conn, "test", 2, max_running=5, rate_limit=7)
    definition(conn, "test", 1, max_running=1)
    rows = [effective(conn, "test", v) for v in (1, 2)]
    assert [(row["max_running"], row["rate_limit"]) for row in rows] == [(5, 7), (5, 7)]
    definition(conn, "test", 3)
    rows = [effective(conn, "test", v) for v in (1, 2, 3)]
    assert [row["max_running"] for row in rows] == [None, None, None]


def test_settings_other_than_limits_belong_to_their_version(conn: Connection) -> None:
    definition(conn, "test", 1, queue="old", max_attempts=1)
    definition(conn, "test", 2, queue="new", max_attempts=2)
    old = job_of(conn, TENANT_A, enqueue_one(conn, definition="test@1"))
    new = job_of(conn, TENANT_A, enqueue_one(conn))
    assert (old["queue"], old["max_attempts"]) == ("old", 1)
    assert (new["queue"], new["max_attempts"]) == ("new", 2)


def test_registering_unchanged_settings_writes_nothing(conn: Connection) -> None:
    definition(conn, timeout_s=10)
    [before] = conn.execute("select xmin, updated_at from jobforge.definitions").fetchall()
    definition(conn, timeout_s=10)
    [after] = conn.execute("select xmin, updated_at from jobforge.definitions").fetchall()
    assert after == before


def test_many_workers_may_register_concurrently(conn: Connection, connect: Connect) -> None:
    sessions = [connect("worker_login") for _ in range(6)]

    def register(session: Connection) -> None:
        for version in range(1, 6):
            definition(session, "test", version, timeout_s=version)

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(register, sessions))
    assert [effective(conn, "test", v)["timeout_s"] for v in range(1, 6)] == [1, 2, 3, 4, 5]


def test_settings_out_of_bounds_leave_the_definition_as_it_was(conn: Connection) -> None:
    definition(conn, timeout_s=10)
    before = effective(conn)
    with refused("JF002", field="settings"):
        definition(conn, timeout_s=10**9)
    with refused("JF002", field="settings"):
        override(conn, max_running=-1)
    with refused("JF002", field="queue"):
        override(conn, queue="other")
    assert effective(conn) == before


def test_an_override_of_attempts_applies_to_jobs_enqueued_afterwards(conn: Connection) -> None:
    definition(conn)
    before = enqueue_one(conn)
    override(conn, max_attempts=9)
    after = enqueue_one(conn)
    assert [job_of(conn, TENANT_A, job)["max_attempts"] for job in (before, after)] == [5, 9]


def test_a_timeout_is_taken_at_the_claim_unless_the_job_has_its_own(conn: Connection) -> None:
    definition(conn, timeout_s=10)
    enqueue_one(conn)
    enqueue_one(conn, timeout_s=77, queue="own")
    override(conn, timeout_s=20)
    assert [row["timeout_s"] for row in claim(conn, new_worker())] == [20]
    assert [row["timeout_s"] for row in claim(conn, new_worker(), "own")] == [77]


@pytest.mark.parametrize("outcome", ["failed", "succeeded"])
def test_a_job_whose_definition_is_gone_can_still_finish(conn: Connection, outcome: str) -> None:
    definition(conn)
    job, worker = enqueue_one(conn), new_worker()
    held = claim(conn, worker)
    conn.execute("delete from jobforge.definitions")
    [row] = complete(conn, worker, held, outcome)
    assert (row["status"], job_of(conn, TENANT_A, job)["attempt"]) == ("ok", 1)


def test_an_override_is_audited(conn: Connection) -> None:
    definition(conn)
    override(conn, timeout_s=5)
    [row] = conn.execute("select * from jobforge.audit_log").fetchall()
    assert (row["action"], row["target"], row["detail"]) == (
        "definition.override",
        "test",
        {"timeout_s": 5},
    )
