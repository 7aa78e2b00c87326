"""All functions that lock many jobs do so in one order, so they do not deadlock.

A third session locks one of three jobs until both others wait. With two different orders, these two
would then wait for each other.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import combinations_with_replacement
from uuid import UUID

import pytest
from cluster import Connect, Connection, Database, connect_to, fresh_database
from sql.engine import TENANT_A, Row, call, definition, new_worker, release, succeed, token
from sql.interleaver import Action, Interleaver, Script
from sql.mutation import mutate
from sql.settlement import claim_job

from jobforge.embedded import PostgresServer

Bulk = Callable[[UUID, list[Row]], Action]


def _settle_all(*outcomes: str) -> Bulk:
    def make(worker: UUID, jobs: list[Row]) -> Action:
        given = [
            token(job) | {"outcome": outcome} for job, outcome in zip(jobs, outcomes, strict=True)
        ]
        return lambda conn: call(conn, "complete_jobs", worker_id=worker, outcomes=given[::-1])

    return make


BULK: dict[str, Bulk] = {
    "succeed": _settle_all("succeeded", "succeeded", "succeeded"),
    "succeed plainly": lambda worker, jobs: lambda conn: succeed(conn, worker, jobs[::-1]),
    "fail": _settle_all("failed", "failed", "failed"),
    "fail first": _settle_all("failed", "succeeded", "succeeded"),
    "fail last": _settle_all("succeeded", "succeeded", "failed"),
    "release": lambda worker, jobs: lambda conn: release(conn, worker, jobs[::-1]),
    "cancel": lambda _, __: lambda conn: call(conn, "cancel_jobs", filter={}, tenant_id=TENANT_A),
    "limit": lambda _, __: lambda conn: definition(conn, max_running=100),
}


@pytest.fixture(scope="module")
def database(server: PostgresServer) -> Iterator[Database]:
    with fresh_database(server) as fresh:
        yield fresh


@pytest.mark.parametrize(("one", "other"), list(combinations_with_replacement(BULK, 2)))
def test_two_sessions_that_lock_many_jobs_do_not_deadlock(
    conn: Connection, connect: Connect, one: str, other: str
) -> None:
    _run_against_each_other(conn, [connect(autocommit=False) for _ in range(3)], one, other)


def test_a_settlement_that_waited_for_locks_in_another_order_would_deadlock_with_a_cancel(
    server: PostgresServer,
) -> None:
    with fresh_database(server) as own, ExitStack() as opened:
        conn = opened.enter_context(connect_to(own.url))
        sessions = [opened.enter_context(connect_to(own.url, autocommit=False)) for _ in range(3)]
        mutate(conn, "settle_free_jobs", "g.tenant_id, g.job_id", "g.tenant_id, g.job_id desc")
        mutate(conn, "settle_free_jobs", "for update of j skip locked", "for update of j")
        with pytest.raises(AssertionError, match="deadlock"):
            _run_against_each_other(conn, sessions, "fail first", "cancel")


def _run_against_each_other(
    conn: Connection, sessions: list[Connection], one: str, other: str
) -> None:
    interleaver = Interleaver(conn, sessions)
    worker = new_worker()
    try:
        for held_up in range(3):
            conn.execute("delete from jobforge.jobs")
            definition(conn)
            jobs = [claim_job(conn, worker) for _ in range(3)]
            assert jobs == sorted(jobs, key=lambda job: UUID(str(job["job_id"])))
            scripts = [
                Script(one, (BULK[one](worker, jobs),)),
                Script(other, (BULK[other](worker, jobs),)),
                Script("hold", (_hold(jobs[held_up]),)),
            ]
            for outcome in interleaver.run(scripts, (2, 0, 1, 2, 0, 1), lambda: None):
                assert outcome.error is None
    finally:
        interleaver.close()


def _hold(job: Row) -> Action:
    return lambda conn: conn.execute(
        "select from jobforge.jobs where id = %s for update", [job["job_id"]]
    )
