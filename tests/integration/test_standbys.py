"""Physical copies: a promoted standby, and a restored base backup."""

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import quote

import psycopg
import pytest
from cluster import Clock, Connection, Database, connect_to, wait_until
from integration.replicas import cluster, contents, copy_of, flush, install, open_installed_database
from integration.worker_harness import WaitingJobs, WorkerHarness, eventually
from sql.engine import (
    TENANT_A,
    Row,
    attempts_of,
    call,
    call_for_value,
    claim,
    complete,
    definition,
    enqueue,
    enqueue_one,
    heartbeat,
    new_worker,
    reap,
    state_of,
    succeed,
)

from jobforge.embedded import PostgresServer
from jobforge.types.jobs import Outcome


@dataclass(frozen=True, slots=True)
class WritableDatabase(Database):
    """The database on the server of the two that accepts writes."""

    standby: PostgresServer

    def url_as(self, role: str) -> str:
        servers = (self.server, self.standby)
        hosts = ",".join(quote(str(each.socket_dir), safe="") for each in servers)
        ports = ",".join(str(each.port) for each in servers)
        return (
            f"postgresql://{role}@/{self.name}?host={hosts}&port={ports}"
            "&target_session_attrs=read-write"
        )


@pytest.fixture
def primary() -> Iterator[PostgresServer]:
    with cluster() as server:
        install(server)
        yield server


@pytest.fixture
def conn(primary: PostgresServer) -> Iterator[Connection]:
    """Create a database on the primary, with the definition `test`."""
    with open_installed_database(primary) as conn:
        definition(conn)
        yield conn


def crash(server: PostgresServer, conn: Connection) -> None:
    """Stop the server without a checkpoint and without notifying its clients."""
    os.kill(server.pid, signal.SIGQUIT)
    wait_until(lambda: _is_cut(conn))


def _is_cut(conn: Connection) -> bool:
    try:
        conn.execute("select")
    except psycopg.OperationalError:
        return True
    return False


def wait_for_replay(conn: Connection, standby: Connection) -> None:
    """Wait until the standby shows what is committed on the primary."""
    end = [flush(conn)]
    shown = "select from pg_last_wal_replay_lsn() as l where l >= %s::pg_lsn"
    wait_until(lambda: bool(standby.execute(shown, end).rowcount))


def promote(standby: Connection) -> None:
    [row] = standby.execute("select pg_promote() as is_done").fetchall()
    assert row["is_done"]


def claim_one(conn: Connection, lease_s: float = 600) -> Row:
    """Return a new job that a new worker has claimed."""
    job, worker = enqueue_one(conn, queue="held"), new_worker()
    [row] = claim(conn, worker, "held", lease_s=lease_s)
    assert row["job_id"] == job
    return {**row, "worker_id": worker}


def statuses(rows: list[Row]) -> list[str]:
    return [row["status"] for row in rows]


@pytest.mark.parametrize("is_standby", [True, False], ids=["promoted", "restored"])
def test_jobs_continue_where_the_primary_stopped(
    primary: PostgresServer, conn: Connection, *, is_standby: bool
) -> None:
    request = {"bucket": "b", "rate": 0.001, "burst": 1}
    taken = [call(conn, "take_request", **request)[0]["allowed"] for _ in range(2)]
    assert taken == [True, False]
    done, held, dropped = (claim_one(conn) for _ in range(3))
    succeed(conn, done["worker_id"], [done])
    lost = claim_one(conn, lease_s=1)
    enqueue(conn, n=5)
    with copy_of(primary, is_standby=is_standby) as server:
        database = Database(conn.info.dbname, server)
        with closing(connect_to(database.url)) as copy:
            if is_standby:
                enqueue(conn, n=5)
                complete(conn, dropped["worker_id"], [dropped], "failed", final=True)
                wait_for_replay(conn, copy)
            before = contents(conn)
            crash(primary, conn)
            if is_standby:
                promote(copy)
            assert contents(copy) == before

            # Running jobs: a live worker keeps its lease; a dead worker's job is claimed again.
            assert statuses(heartbeat(copy, held["worker_id"], [held]))[0] == "ok"
            assert statuses(complete(copy, held["worker_id"], [held])) == ["ok"]
            assert statuses(complete(copy, done["worker_id"], [done])) == ["ok"]
            clock = Clock(copy)
            for _ in range(2):
                clock.travel(minutes=5)
                reap(copy)
            [ended] = attempts_of(copy, TENANT_A, lost["job_id"])
            assert (ended["lease"], ended["outcome"]) == (lost["lease"], "lease_lost")
            clock.travel(minutes=5)
            [again] = [row for row in claim(copy, new_worker(), "held", 9) if is_same(row, lost)]
            assert again["lease"] > lost["lease"]
            assert statuses(complete(copy, lost["worker_id"], [lost])) == ["lost"]

            # Waiting jobs, unlogged tables, and maintenance.
            assert len(claim(copy, new_worker(), limit=99)) == (10 if is_standby else 5)
            assert call(copy, "take_request", **request)[0]["allowed"]
            clock.travel(days=3)
            assert call_for_value(copy, "ensure_partitions") > 0
            assert call_for_value(copy, "apply_retention")["partitions"] is not None


def is_same(row: Row, other: Row) -> bool:
    return bool(row["job_id"] == other["job_id"])


def test_claims_that_a_promoted_standby_never_received_are_lost(
    primary: PostgresServer, conn: Connection
) -> None:
    """Replication is asynchronous: the last commits of the primary are lost."""
    job = enqueue_one(conn)
    with (
        copy_of(primary, is_standby=True) as server,
        closing(connect_to(server.url(conn.info.dbname))) as standby,
    ):
        wait_for_replay(conn, standby)
        standby.execute("alter system set primary_conninfo = ''")
        standby.execute("select pg_reload_conf()")
        wait_until(lambda: not standby.execute("select from pg_stat_wal_receiver").rowcount)
        worker = new_worker()
        [held] = claim(conn, worker)
        unknown = claim_one(conn)
        crash(primary, conn)
        promote(standby)

        assert state_of(standby, TENANT_A, job) == "queued"
        for row in ({**held, "worker_id": worker}, unknown):
            assert statuses(heartbeat(standby, row["worker_id"], [row]))[0] == "lost"
            assert statuses(complete(standby, row["worker_id"], [row])) == ["lost"]
        [again] = claim(standby, new_worker())
        assert again["job_id"] == job
        assert again["lease"] > held["lease"]


@pytest.mark.anyio
async def test_a_worker_finds_the_promoted_standby_and_reports_its_job(
    primary: PostgresServer, conn: Connection
) -> None:
    with copy_of(primary, is_standby=True) as server:
        shop = WorkerHarness(WritableDatabase(conn.info.dbname, primary, server), conn)
        waiters = WaitingJobs(shop)
        running, waiting = shop.enqueue("wait"), shop.enqueue("wait")
        with closing(connect_to(server.url(conn.info.dbname))) as standby:
            async with shop.running_worker(
                login="postgres", queues={"default": 1}, lease_s=60, heartbeat_s=20
            ):
                await eventually(lambda: waiters.running == 1)
                wait_for_replay(conn, standby)
                crash(primary, conn)
                promote(standby)
                shop.conn = standby
                waiters.may_end.set()
                for job in (running, waiting):
                    await shop.wait_for_state(job)
            assert shop.outcomes(running) == shop.outcomes(waiting) == [Outcome.SUCCEEDED]
            assert waiters.cancelled == 0
