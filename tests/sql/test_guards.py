"""Remove a guard from the engine, and check that a rule of another test then fails.

This shows that those tests can fail, and that the guard enforces the rule. These tests also check
the interleaver itself, with sessions that must wait and with sessions that must deadlock.
"""

from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest
from cluster import Clock, Connect, Connection
from sql.concurrency_scenarios import World, scripts
from sql.engine import definition, new_worker
from sql.hook_jobs import (
    check_a_discarded_job_has_no_second_hook_job,
    check_a_retry_has_no_hook_job,
    define_hooks,
)
from sql.interleaver import Action, Interleaver, Script, interleavings
from sql.mutation import mutate
from sql.settlement import (
    check_a_late_heartbeat,
    check_a_late_note,
    check_a_late_settlement,
    claim_and_reap_job,
    claim_job,
    settle,
)
from sql.uncached_claim import claim


@pytest.fixture
def worker(conn: Connection) -> UUID:
    definition(conn)
    return new_worker()


@pytest.fixture
def interleaver(connect: Connect) -> Iterator[Interleaver]:
    made = Interleaver(connect(), [connect(autocommit=False) for _ in range(2)])
    yield made
    made.close()


def test_without_its_lease_guard_a_late_completion_ends_another_attempt(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    mutate(conn, "settle_finished_jobs", "and j.lease = g.lease", "")
    job = claim_and_reap_job(conn, clock, worker)
    claim(conn, worker)
    with pytest.raises(AssertionError):
        check_a_late_settlement(conn, worker, job, "succeeded")


def test_without_its_lease_guard_a_late_success_ends_another_attempt(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    mutate(conn, "move_succeeded_jobs", "and j.lease = g.lease", "")
    job = claim_and_reap_job(conn, clock, worker)
    claim(conn, worker)
    with pytest.raises(AssertionError):
        check_a_late_settlement(conn, worker, job, "plain")


def test_without_its_lease_guard_a_late_failure_ends_another_attempt(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    mutate(conn, "settle_free_jobs", "and j.lease = g.lease", "")
    mutate(conn, "settle_unfinished_jobs", "and j.lease = g.lease", "")
    mutate(conn, "settle_unfinished_jobs", "and j.lease = h.lease", "")
    job = claim_and_reap_job(conn, clock, worker)
    claim(conn, worker)
    with pytest.raises(AssertionError):
        check_a_late_settlement(conn, worker, job, "failed")


@pytest.mark.parametrize(
    ("functions", "outcome"),
    [
        (["settle_finished_jobs"], "succeeded"),
        (["settle_free_jobs", "settle_unfinished_jobs"], "failed"),
        (["move_succeeded_jobs"], "plain"),
    ],
)
def test_without_its_worker_guard_any_worker_ends_an_attempt(
    conn: Connection, worker: UUID, functions: list[str], outcome: str
) -> None:
    for function in functions:
        mutate(conn, function, "and j.worker_id = g.worker_id", "")
    with pytest.raises(AssertionError):
        check_a_late_settlement(conn, new_worker(), claim_job(conn, worker), outcome)


@pytest.mark.parametrize(
    ("function", "guard", "outcome"),
    [
        ("move_succeeded_jobs", "and (j.xmax = j.xmin or j.xmax = 0)", "plain"),
        ("settle_finished_jobs", "and (j.xmax = j.xmin or j.xmax = 0)", "succeeded"),
        ("settle_free_jobs", "skip locked", "failed"),
    ],
)
def test_without_its_check_of_locks_a_settlement_waits_for_one(
    conn: Connection, connect: Connect, worker: UUID, function: str, guard: str, outcome: str
) -> None:
    job = claim_job(conn, worker)
    holder, settling = connect(autocommit=False), connect()
    holder.execute("select from jobforge.jobs for update")
    settling.execute("set lock_timeout = '50ms'")
    assert settle(settling, worker, job, outcome) == ["busy"]
    mutate(conn, function, guard, "")
    with pytest.raises(psycopg.errors.LockNotAvailable):
        settle(settling, worker, job, outcome)


def test_without_its_lease_guard_a_late_heartbeat_extends_another_lease(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    mutate(conn, "heartbeat_jobs", "and j.lease = t.lease", "")
    with pytest.raises(AssertionError):
        check_a_late_heartbeat(conn, clock, worker)


def test_without_its_lease_guard_a_late_note_is_kept(
    conn: Connection, clock: Clock, worker: UUID
) -> None:
    mutate(conn, "note_jobs", "and j.lease = t.lease", "")
    job = claim_and_reap_job(conn, clock, worker)
    claim(conn, worker)
    with pytest.raises(AssertionError):
        check_a_late_note(conn, worker, job)


def test_without_its_worker_guard_any_worker_adds_notes_to_a_job(
    conn: Connection, worker: UUID
) -> None:
    mutate(conn, "note_jobs", "and j.worker_id = p_worker_id", "")
    with pytest.raises(AssertionError):
        check_a_late_note(conn, new_worker(), claim_job(conn, worker))


def test_without_its_check_of_the_state_a_retried_failure_gets_a_hook_job(
    conn: Connection,
) -> None:
    mutate(conn, "follow_up", "and v_ended.state in ('succeeded', 'canceled', 'dead')", "")
    define_hooks(conn)
    with pytest.raises(AssertionError):
        check_a_retry_has_no_hook_job(conn)


def test_without_its_check_of_the_state_a_discarded_dead_job_gets_a_second_hook_job(
    conn: Connection,
) -> None:
    mutate(conn, "follow_up", "and v_ended.was <> 'dead'", "")
    define_hooks(conn)
    with pytest.raises(AssertionError):
        check_a_discarded_job_has_no_second_hook_job(conn)


def test_without_the_lock_of_its_group_two_claims_exceed_a_cap(
    conn: Connection, connect: Connect, interleaver: Interleaver
) -> None:
    lock = "not jobforge_private.try_lock("
    mutate(conn, "lock_limits", lock, "not pg_is_in_recovery() and null = (")
    world = World(conn, restorer=connect())
    two = [scripts(world)["capped claim"]] * 2

    def play_all() -> None:
        for schedule in interleavings(2, 2):
            world.restore()
            interleaver.run(two, schedule, world.check_cap)

    with pytest.raises(AssertionError, match="jobs run under a cap"):
        play_all()


def _update(row: int) -> Action:
    return lambda conn: conn.execute("update public.pair set n = n + 1 where id = %s", [row])


@pytest.fixture
def pair(conn: Connection) -> None:
    conn.execute("create table public.pair as select id, 0 as n from generate_series(1, 2) as id")


@pytest.mark.usefixtures("pair")
def test_a_session_that_waits_continues_when_the_other_commits(
    conn: Connection, interleaver: Interleaver
) -> None:
    once = Script("once", (_update(1),))
    commits: list[int] = []

    def count() -> None:
        [row] = conn.execute("select n from public.pair where id = 1").fetchall()
        commits.append(row["n"])

    for schedule in interleavings(2, 2):
        interleaver.run([once, once], schedule, count)
    assert commits == list(range(1, 13))


@pytest.mark.usefixtures("pair")
def test_a_deadlock_is_a_failure(interleaver: Interleaver) -> None:
    up = Script("up", (_update(1), _update(2)))
    down = Script("down", (_update(2), _update(1)))
    with pytest.raises(AssertionError, match="deadlock"):
        interleaver.run([up, down], (0, 1, 0, 1, 0, 1), lambda: None)


def test_interleavings_contain_all_orders() -> None:
    assert sorted(interleavings(1, 2)) == [(0, 1, 1), (1, 0, 1), (1, 1, 0)]
    assert len(set(interleavings(2, 2, 2))) == 90
