"""Minute statistics: every ended attempt is counted once, and queries return correct sums."""

import math
import random
from bisect import bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate

import psycopg
import pytest
from cluster import Clock, Connect, Connection, wait_until
from sql.engine import (
    TENANT_A,
    TENANT_B,
    Json,
    Row,
    as_tenant,
    call,
    call_for_value,
    claim,
    complete,
    definition,
    enqueue,
    erase,
    new_worker,
    refused,
    succeed,
)

WORKER = new_worker()
COUNTS = ["succeeded", "failed", "dead", "canceled", "released"]


def run(conn: Connection, n: int = 1, outcome: str = "succeeded", **fields: Json) -> None:
    """Run attempts of tenant A that end in one transaction."""
    enqueue(conn, n=n)
    complete(conn, WORKER, claim(conn, WORKER, limit=n), outcome, **fields)


def read(conn: Connection, **asked: Json) -> list[Row]:
    """Return all statistics of a tenant, as one step of a day."""
    return call(conn, "get_statistics", **{"step_s": 86400, "tenant_id": TENANT_A} | asked)


def attempts(conn: Connection) -> int:
    """Return the number of attempts in the statistics, of all tenants and times."""
    [row] = conn.execute(
        "select coalesce(sum(succeeded + failed + dead + canceled + released), 0)::integer as n"
        " from jobforge.minute_statistics"
    ).fetchall()
    n = row["n"]
    assert isinstance(n, int)
    return n


def roll_up(conn: Connection, expected: int, limit: int = 50_000) -> None:
    """Roll up until this many are counted: the oldest transaction of the whole cluster delays all
    others."""

    def is_done() -> bool:
        call(conn, "roll_up_statistics", limit=limit)
        return attempts(conn) >= expected

    wait_until(is_done)
    assert attempts(conn) == expected
    assert call_for_value(conn, "roll_up_statistics") == 0


def test_attempts_are_counted_by_the_resulting_state_of_the_job(conn: Connection) -> None:
    definition(conn)
    ended: list[tuple[str, dict[str, Json]]] = [
        ("succeeded", {"cpu_ms": 20, "peak_memory_bytes": 7}),
        ("succeeded", {"cpu_ms": 2**60, "peak_memory_bytes": 5}),
        ("failed", {}),
        ("timed_out", {}),
        ("failed", {"final": True}),
        ("canceled", {}),
        ("released", {}),
        ("snoozed", {"retry_in_s": 60}),
    ]
    for outcome, fields in ended:
        run(conn, 1, outcome, **fields)
    enqueue(conn)
    assert succeed(conn, WORKER, claim(conn, WORKER)) == []
    roll_up(conn, 9)
    [row] = read(conn)
    assert [row[name] for name in COUNTS] == [3, 2, 1, 1, 2]
    # A wrong duration from a worker does not spoil a sum.
    assert (row["cpu_ms"], row["peak_memory_bytes"]) == (1_000_000_020, 7)
    [row] = read(conn, by="definition", filter={"definition": "test", "queue": "default"})
    assert (row["definition"], row["queue"], row["attempts"]) == ("test", None, 9)
    [row] = read(conn, by="queue")
    assert (row["definition"], row["queue"], row["attempts"]) == (None, "default", 9)
    assert read(conn, filter={"queue": "other"}) == []


def test_attempts_that_commit_late_and_out_of_order_are_counted_once(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    early, late = connect(autocommit=False), connect(autocommit=False)
    enqueue(conn, n=6)
    jobs = claim(conn, WORKER, limit=6)
    complete(early, WORKER, jobs[:1])
    complete(late, WORKER, jobs[1:3])
    complete(conn, WORKER, jobs[3:4])
    # This commit is younger than two open transactions. Counting it now would later miss them or
    # count it twice.
    assert call_for_value(conn, "roll_up_statistics") == 0
    late.commit()
    assert call_for_value(conn, "roll_up_statistics") == 0
    early.commit()
    roll_up(conn, 4)
    complete(conn, WORKER, jobs[4:])
    roll_up(conn, 6)


def test_a_killed_roll_up_counts_nothing_and_the_next_one_counts_everything(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    run(conn, 3)
    doomed = connect(autocommit=False)

    def has_read() -> bool:
        return bool(call_for_value(doomed, "roll_up_statistics") == 3)

    wait_until(has_read)
    # Meanwhile no other session rolls up, and an operator who erases a tenant waits.
    assert call_for_value(conn, "roll_up_statistics") == 0
    conn.execute("select pg_terminate_backend(%s)", [doomed.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        doomed.execute("select 1")
    assert attempts(conn) == 0
    roll_up(conn, 3)


def test_whole_transactions_are_counted_however_small_the_limit(conn: Connection) -> None:
    definition(conn)
    for n in (3, 1, 2):
        run(conn, n)
    answered = []

    def is_done() -> bool:
        answered.append(call_for_value(conn, "roll_up_statistics", limit=2))
        return attempts(conn) == 6

    wait_until(is_done)
    # A transaction elsewhere in the cluster may delay later ones, but splits none.
    assert set(accumulate(answered)) - {0} <= {3, 4, 6}


def exact(values: Sequence[float], share: float) -> float:
    """The oracle: return the smallest value that at least this share of the values does not
    exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def insert(conn: Connection, at: datetime, waits: list[float], runs: list[float]) -> None:
    """Insert attempts that ended at one moment, with these durations in milliseconds."""
    conn.execute(
        """
        insert into jobforge.attempts (
               tenant_id, job_id, worker_id, lease, queued_at, started_at, ended_at, version,
               attempt, outcome, state, definition, queue)
        select %(tenant)s, gen_random_uuid(), gen_random_uuid(), 1,
               %(at)s - (w + r) * interval '1 millisecond', %(at)s - r * interval '1 millisecond',
               %(at)s, 1, 1, 'succeeded', 'succeeded', 'test', 'default'
          from unnest(%(waits)s::float8[], %(runs)s::float8[]) as g(w, r)
        """,
        {"tenant": TENANT_A, "at": at, "waits": waits, "runs": runs},
    )


@pytest.mark.parametrize("n", [1, 2, 37, 400])
def test_percentiles_are_in_the_bucket_of_the_exact_ones(conn: Connection, n: int) -> None:
    chance = random.Random(n)  # noqa: S311 - no secret
    waits, runs = ([round(chance.lognormvariate(6, 3), 3) for _ in range(n)] for _ in "ab")
    at, half = datetime.now(UTC).replace(second=0), n // 2
    # Two roll-ups add to the same minute.
    insert(conn, at, waits[:half], runs[:half])
    roll_up(conn, half)
    insert(conn, at, waits[half:], runs[half:])
    roll_up(conn, n)
    [row] = read(conn)
    bounds = call_for_value(conn, "jobforge_private.duration_bounds")
    for name, values in (("wait", waits), ("run", runs)):
        for share in (0.5, 0.95):
            found = row[f"{name}_p{share * 100:.0f}_ms"]
            assert bisect_right(bounds, found) == bisect_right(bounds, exact(values, share))
        assert row[f"{name}_ms"] == pytest.approx(sum(values), abs=2)
    [kept] = conn.execute("select * from jobforge.minute_statistics").fetchall()
    assert (sum(kept["wait_histogram"]), sum(kept["run_histogram"])) == (n, n)


def test_steps_are_aligned_and_those_without_attempts_are_omitted(
    conn: Connection, clock: Clock
) -> None:
    definition(conn)
    for minutes in (0, 1, 125):
        clock.travel(minutes=minutes)
        run(conn)
    roll_up(conn, 3)
    since = clock.now() - timedelta(hours=4)
    rows = read(conn, since=since, step_s=60)
    assert [row["attempts"] for row in rows] == [1, 1, 1]
    assert rows[2]["at"] - rows[1]["at"] == timedelta(minutes=125)
    rows = read(conn, since=since, step_s=3600)
    assert sum(row["attempts"] for row in rows) == 3
    assert {row["at"].minute for row in rows} == {0}
    [row] = read(conn, since=since, step_s=0)
    assert (row["attempts"], row["at"]) == (3, since.replace(second=0, microsecond=0))
    assert read(conn, since=since, until=clock.now() - timedelta(hours=3)) == []


def test_a_tenant_sees_its_own_statistics_and_operators_see_all(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    enqueue(conn, TENANT_B, n=2)
    jobs = claim(conn, WORKER, limit=2)
    complete(conn, WORKER, jobs, cpu_ms=1500, peak_memory_bytes=9)
    run(conn)
    roll_up(conn, 3)
    client = connect("client_login")
    with as_tenant(client, TENANT_A):
        assert [row["attempts"] for row in call(client, "get_statistics")] == [1]
    with refused("JF006"), as_tenant(client, TENANT_A):
        call(client, "get_statistics", tenant_id=TENANT_B)
    with refused("JF001"):
        call(client, "get_statistics")
    with refused("42501"):
        call(client, "meter_tenants")
    admin = connect("admin_login")
    used = {row["tenant_id"]: row for row in call(admin, "meter_tenants")}
    assert {tenant: row["attempts"] for tenant, row in used.items()} == {TENANT_A: 1, TENANT_B: 2}
    assert (used[TENANT_B]["cpu_s"], used[TENANT_B]["peak_memory_bytes"]) == (3, 9)
    with as_tenant(admin, TENANT_A):
        assert [row["tenant_id"] for row in call(admin, "meter_tenants")] == [TENANT_A]


def test_statistics_are_kept_as_long_as_the_history_and_deleted_with_their_tenant(
    conn: Connection, clock: Clock
) -> None:
    definition(conn)
    run(conn)
    roll_up(conn, 1)
    clock.travel(days=10)
    call(conn, "ensure_partitions")
    run(conn)
    roll_up(conn, 2)
    clock.travel(days=5)
    call(conn, "apply_retention")
    assert attempts(conn) == 1
    erase(conn)
    assert attempts(conn) == 0


def test_one_process_gets_a_task_and_the_next_one_only_after_its_interval(
    conn: Connection, connect: Connect, clock: Clock
) -> None:
    ask = {"task": "retention", "every_s": 3600}
    assert call_for_value(connect("worker_login"), "start_maintenance", **ask) is True
    assert call_for_value(conn, "start_maintenance", **ask) is False
    assert call_for_value(conn, "start_maintenance", task="statistics", every_s=8) is True
    clock.travel(minutes=61)
    assert call_for_value(conn, "start_maintenance", **ask) is True


@pytest.mark.parametrize(
    ("function", "asked"),
    [
        ("get_statistics", {"step_s": 59}),
        ("get_statistics", {"step_s": -60}),
        ("get_statistics", {"step_s": 90}),
        ("get_statistics", {"since": "2026-01-01", "until": "2026-02-01", "step_s": 60}),
        ("get_statistics", {"since": "2026-02-01", "until": "2026-01-01"}),
        ("get_statistics", {"since": "-infinity"}),
        ("get_statistics", {"by": "tag"}),
        ("get_statistics", {"filter": {"tag": "x"}}),
        ("meter_tenants", {"since": "2020-01-01", "until": "2026-01-01"}),
        ("meter_tenants", {"until": "infinity"}),
        ("roll_up_statistics", {"limit": 0}),
        ("start_maintenance", {"task": "other", "every_s": 1}),
        ("start_maintenance", {"task": "retention", "every_s": -1}),
    ],
)
def test_an_invalid_question_is_refused(
    conn: Connection, function: str, asked: dict[str, Json]
) -> None:
    with refused("JF002"):
        call(conn, function, **asked)
