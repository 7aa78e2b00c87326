"""The hint that a session remembers when walks are slow: where the ready jobs begin.

The tests do not wait for slowness: they write the memory as plan_round would after two slow scans.
"""

import hashlib
import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from cluster import Connect, Connection
from sql.engine import TENANT_A, TENANT_B, claim, definition, enqueue, new_worker, succeed
from sql.query_plans import rows_read

QUEUE = "default"
LATER = timedelta(hours=1)


def remember(conn: Connection, *, rescan: bool = False, idle: bool = False) -> None:
    """Store the positions of all ready jobs; the next claim repeats the walk at once or much
    later."""
    now = datetime.now(UTC)
    cursor = {
        "tenant": str(TENANT_A),
        "served": 1,
        "complete": True,
        "gated": False,
        "idle_until": (now - LATER if idle else now + LATER).isoformat(),
        "heads_until": (now + LATER).isoformat(),
        "rescan_at": (now - LATER if rescan else now + LATER).isoformat(),
    }
    conn.execute(
        """
        select jobforge_private.store_heads(n.name, %(queue)s, jobforge_private.pack_heads(f.heads))
          from jobforge_private.find_ready_tenants(%(queue)s, 100, %(tenant)s) as f,
               (values ('scanned'), ('heads')) as n(name)
        """,
        {"queue": QUEUE, "tenant": TENANT_A},
    )
    conn.execute("select set_config('jobforge.cursors', %s, false)", [json.dumps({QUEUE: cursor})])


def claimed(conn: Connection, limit: int = 10) -> set[UUID]:
    return {row["job_id"] for row in claim(conn, new_worker(), QUEUE, limit)}


def test_claims_from_remembered_positions_take_every_job_once(conn: Connection) -> None:
    definition(conn)
    jobs = [*enqueue(conn, TENANT_A, 5), *enqueue(conn, TENANT_B, 5)]
    remember(conn)
    taken = [job for _ in range(6) for job in claimed(conn, 2)]
    assert sorted(taken) == sorted(jobs)


def test_tenants_share_claims_from_remembered_positions(conn: Connection) -> None:
    definition(conn)
    enqueue(conn, TENANT_A, 10)
    enqueue(conn, TENANT_B, 10)
    remember(conn)
    rows = [row for _ in range(5) for row in claim(conn, new_worker(), QUEUE, 2)]
    assert [row["tenant_id"] for row in rows].count(TENANT_A) == 5


def test_later_jobs_are_found_without_a_walk(conn: Connection) -> None:
    definition(conn)
    enqueue(conn, TENANT_A, 2)
    remember(conn)
    claimed(conn)
    later = enqueue(conn, TENANT_A, 2)
    assert claimed(conn) == set(later)


def test_a_job_of_a_higher_priority_is_found_when_the_walk_is_repeated(conn: Connection) -> None:
    definition(conn)
    enqueue(conn, TENANT_A, 2)
    remember(conn, rescan=True)
    [urgent] = enqueue(conn, TENANT_A, priority=5)
    assert claimed(conn, 1) == {urgent}


def test_a_tenant_that_had_no_job_is_found_when_the_walk_is_repeated(conn: Connection) -> None:
    definition(conn)
    enqueue(conn, TENANT_A, 2)
    remember(conn, rescan=True)
    [job] = enqueue(conn, TENANT_B)
    assert job in claimed(conn)


def test_a_session_that_finds_nothing_makes_a_full_walk(conn: Connection) -> None:
    definition(conn)
    enqueue(conn, TENANT_A, 2)
    remember(conn, idle=True)
    claimed(conn)
    [hidden] = enqueue(conn, TENANT_A)
    conn.execute("update jobforge.jobs set run_at = run_at - interval '1 day'")
    assert claimed(conn) == {hidden}


def test_a_position_survives_being_written_down(conn: Connection) -> None:
    definition(conn)
    enqueue(conn, TENANT_A, 3)
    exact = conn.execute(
        """
        select bool_and(to_timestamp(date_part('epoch', j.run_at)) = j.run_at) as is_exact
          from jobforge.jobs as j
        """
    ).fetchone()
    assert exact == {"is_exact": True}


@pytest.mark.parametrize("walked", [False, True], ids=["recalled", "walked again"])
@pytest.mark.parametrize(
    "text", ["(1,2)", "nonsense", "5", '{"default": 5}', '{"default": {"tenant": 5, "small": "x"}}']
)
def test_a_session_discards_an_unreadable_memory(
    conn: Connection, text: str, *, walked: bool
) -> None:
    """The memory is unreadable after a migration that changes its format, or when an application
    sets it."""
    definition(conn)
    jobs = enqueue(conn, TENANT_A, 3)
    remember(conn, rescan=walked)
    heads = "jobforge.heads_" + hashlib.md5(QUEUE.encode(), usedforsecurity=False).hexdigest()
    for name in (heads, "jobforge.promoted", heads.replace("heads_", "scanned_")):
        conn.execute("select set_config(%s, %s, false)", [name, text])
    assert len(claimed(conn, 1)) == 1
    conn.execute("select set_config('jobforge.cursors', %s, false)", [text])
    assert len(claimed(conn, len(jobs))) == len(jobs) - 1


def test_an_empty_memory_is_not_an_unreadable_one(conn: Connection) -> None:
    """Otherwise every claim of an empty queue would walk, which is what the memory prevents."""
    definition(conn)
    remember(conn)
    [row] = conn.execute(
        "select (jobforge_private.load_heads('heads', %s)).tenants = '{}' as is_empty", [QUEUE]
    ).fetchall()
    assert row == {"is_empty": True}


def _tenants(conn: Connection, name: str) -> list[UUID]:
    query = "select unnest((jobforge_private.load_heads(%s, %s)).tenants) as tenant"
    return [row["tenant"] for row in conn.execute(query, [name, QUEUE]).fetchall()]


def test_a_tenant_stays_remembered_while_it_has_no_job(conn: Connection) -> None:
    definition(conn)
    enqueue(conn, TENANT_A, 1)
    remember(conn, rescan=True)
    enqueue(conn, TENANT_B, 1)
    assert len(claimed(conn)) == 2
    assert claimed(conn) == set()
    assert _tenants(conn, "scanned") == [TENANT_A, TENANT_B]


def test_the_next_job_of_a_remembered_tenant_is_found_without_reading_its_dead_entries(
    conn: Connection, connect: Connect
) -> None:
    definition(conn)
    enqueue(conn, TENANT_A, 1)
    enqueue(conn, TENANT_B, 1)
    remember(conn)
    holder = connect(autocommit=False)
    holder.execute("set transaction isolation level repeatable read")
    holder.execute("select count(*) from jobforge.jobs")
    worker = new_worker()
    enqueue(conn, TENANT_A, 500)
    enqueue(conn, TENANT_B, 500)
    while rows := claim(conn, worker, QUEUE, 500):
        succeed(conn, worker, rows)
    # A second later, what a full walk would remember.
    conn.execute(
        """
        select jobforge_private.store_heads('scanned', %(queue)s,
                   jobforge_private.merge_known_heads(
                       %(queue)s, '{}', jobforge_private.now() + interval '1 second'))
        """,
        {"queue": QUEUE},
    )
    with conn.transaction():
        before = rows_read(conn)
        conn.execute("select jobforge_private.rescan_ready_tenants(%s)", [QUEUE])
        assert rows_read(conn) - before < 100


def test_the_walk_is_repeated_as_soon_as_that_is_cheap(conn: Connection) -> None:
    definition(conn)
    enqueue(conn, TENANT_A, 1)
    remember(conn, rescan=True)
    claimed(conn, 1)
    query = "select current_setting('jobforge.cursors')::jsonb -> %s ->> 'rescan_at' as rescan_at"
    [row] = conn.execute(query, [QUEUE]).fetchall()
    assert datetime.fromisoformat(row["rescan_at"]) < datetime.now(UTC) + timedelta(seconds=1)
