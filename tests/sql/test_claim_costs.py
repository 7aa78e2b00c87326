"""The cost of a claim with full groups, changing limits, and long lists of definitions.

Costs are counted, not timed: calls of functions, and rows that another session can still lock.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from cluster import Connect, Connection
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Row,
    call,
    complete,
    definition,
    enqueue,
    new_worker,
)
from sql.uncached_claim import claim

MANY = 200


def _calls(conn: Connection, worker: UUID, **options: Any) -> tuple[list[Row], Counter[str]]:
    """Return the claimed jobs, and the number of calls of each engine function in one claim."""
    with conn.transaction():
        conn.execute("set local track_functions = 'all'")
        before = _called(conn)
        rows = claim(conn, worker, limit=10, **options)
        return rows, _called(conn) - before


def _called(conn: Connection) -> Counter[str]:
    """Return this session's calls since the statistics were last reported to the server."""
    rows = conn.execute(
        "select funcname, calls from pg_stat_xact_user_functions "
        "where schemaname in ('jobforge', 'jobforge_private')"
    )
    return Counter({row["funcname"]: row["calls"] for row in rows})


def _fill(conn: Connection, worker: UUID) -> list[Row]:
    """Claim until all groups are full."""
    taken: list[Row] = []
    while rows := claim(conn, worker, limit=100):
        taken += rows
    return taken


def _capped_tenants(conn: Connection) -> None:
    for number in range(MANY):
        tenant = UUID(int=number + 1)
        call(conn, "put_tenant", tenant_id=tenant, settings={"max_running": 1})
        enqueue(conn, tenant, n=2)


def _capped_keys(conn: Connection) -> None:
    definition(conn, max_running_per_key=1)
    for number in range(MANY):
        enqueue(conn, n=2, limit_key=f"key {number}")


def _capped_definitions(conn: Connection) -> None:
    for number in range(MANY):
        definition(conn, f"test_{number}", max_running=1)
        enqueue(conn, n=2, definition=f"test_{number}")


FULL = {"tenants": _capped_tenants, "keys": _capped_keys, "definitions": _capped_definitions}


@pytest.mark.parametrize("what", FULL)
def test_full_groups_are_excluded_together_without_checking_each(
    conn: Connection, what: str
) -> None:
    definition(conn)
    FULL[what](conn)
    worker = new_worker()
    running = _fill(conn, worker)
    assert len(running) == MANY
    rows, calls = _calls(conn, worker)
    assert rows == []
    assert "pick_group" not in calls
    assert sum(calls.values()) < MANY / 2, calls
    complete(conn, worker, [running[MANY // 2]])
    rows, calls = _calls(conn, worker)
    assert [row["limit_key"] for row in rows] == [running[MANY // 2]["limit_key"]]
    assert [row["tenant_id"] for row in rows] == [running[MANY // 2]["tenant_id"]]
    assert [row["definition"] for row in rows] == [running[MANY // 2]["definition"]]
    assert calls["pick_group"] == 1, calls
    assert calls["pick_round"] == 1, "the full groups were counted twice"


def test_a_claim_of_one_free_slot_still_takes_jobs_that_another_limit_allows(
    conn: Connection,
) -> None:
    """One round is enough only if every tenant supplied all jobs that it may start."""
    definition(conn)
    definition(conn, "other", max_running_per_key=1)
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"max_running": 3})
    enqueue(conn, TENANT_A, n=2)
    enqueue(conn, TENANT_A, n=2, definition="other", limit_key="k")
    enqueue(conn, TENANT_B, n=3)
    enqueue(conn, TENANT_B, n=3, definition="other", limit_key="k")
    rows = claim(conn, new_worker(), limit=20)
    taken = Counter((row["tenant_id"], row["definition"]) for row in rows)
    assert taken == {
        (TENANT_A, "test"): 2,
        (TENANT_A, "other"): 1,
        (TENANT_B, "test"): 3,
        (TENANT_B, "other"): 1,
    }


def test_a_claim_checks_a_group_again_that_another_worker_was_claiming(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    for tenant in (TENANT_A, TENANT_B):
        call(conn, "put_tenant", tenant_id=tenant, settings={"max_running": 3})
        enqueue(conn, tenant, n=3)
    other = connect(autocommit=False)
    assert len(claim(other, new_worker(), tenants=[TENANT_A])) == 1
    rows, calls = _calls(conn, new_worker())
    assert [row["tenant_id"] for row in rows] == [TENANT_B] * 3
    assert calls["pick_round"] > 1
    other.commit()
    assert len(claim(conn, new_worker(), limit=10)) == 2


def test_a_full_definition_is_checked_once_and_not_for_each_tenant(conn: Connection) -> None:
    definition(conn, max_running=3)
    for number in range(MANY):
        enqueue(conn, UUID(int=number + 1), n=2)
    worker = new_worker()
    rows, calls = _calls(conn, worker)
    assert len(rows) == 3
    assert calls["pick_group"] <= 4, calls
    rows, calls = _calls(conn, worker)
    assert rows == []
    assert "pick_group" not in calls


def test_a_tenant_with_free_slots_behind_many_full_ones_gets_its_turn(conn: Connection) -> None:
    definition(conn)
    _capped_tenants(conn)
    worker = new_worker()
    _fill(conn, worker)
    last = UUID(int=2**127)
    for tenant in (last, UUID(int=2**127 + 1)):
        call(conn, "put_tenant", tenant_id=tenant, settings={"max_running": 50})
        enqueue(conn, tenant, n=2)
    assert {row["tenant_id"] for row in _calls(conn, worker)[0]} == {last, UUID(int=2**127 + 1)}


def _lockable(conn: Connection) -> set[UUID]:
    """Return the running jobs whose rows no other session has locked."""
    query = "select id from jobforge.jobs where state = 'running' for update skip locked"
    return {row["id"] for row in conn.execute(query).fetchall()}


def _limit_queue(conn: Connection, n: int) -> None:
    call(conn, "put_queue", queue="default", settings={"max_running": n})


def _limit_tenant(conn: Connection, n: int) -> None:
    call(conn, "put_tenant", tenant_id=TENANT_A, settings={"max_running": n})


def _limit_definition(conn: Connection, n: int) -> None:
    definition(conn, max_running=n)


@pytest.mark.parametrize("limit", [_limit_queue, _limit_tenant, _limit_definition])
def test_a_changed_limit_locks_no_running_job_that_is_marked_correctly(
    conn: Connection, connect: Connect, limit: Callable[[Connection, int], None]
) -> None:
    definition(conn)
    limit(conn, 5)
    enqueue(conn, n=20)
    running = {row["job_id"] for row in claim(conn, new_worker(), limit=10)}
    changing, claiming = connect(autocommit=False), connect(autocommit=False)
    limit(changing, 7)
    assert _lockable(conn) == running
    changing.commit()
    assert len(claim(claiming, new_worker(), limit=10)) == 2
    assert _lockable(conn) == running


@pytest.mark.parametrize("registered", [False, True], ids=["listed", "registered"])
def test_the_definitions_of_a_worker_are_compared_once_while_they_stay_the_same(
    conn: Connection, *, registered: bool
) -> None:
    for number in range(20):
        definition(conn, f"test_{number}")
    served = [f"test_{number}@1" for number in range(20)]
    worker = new_worker()
    _register(conn, worker, served)
    options = {"registered": True} if registered else {"definitions": served}
    compared = []
    for key in ("test_0", "test_1", "unserved", "test_2"):
        definition(conn, key)
        enqueue(conn, definition=key)
        rows, calls = _calls(conn, worker, **options)
        assert [row["definition"] for row in rows] == [key] * (key in {s[:-2] for s in served})
        compared.append(calls["serves_all"])
    assert compared == [1, 0, 1, 0]


def _register(conn: Connection, worker: UUID, served: list[str] | None) -> None:
    call(
        conn,
        "register_worker",
        worker_id=worker,
        queues=["default"],
        slots=1,
        definitions=served,
    )
