"""A logical upgrade from the oldest Postgres to the current one, by the steps of
docs/replication.md.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from cluster import Connection, Database
from integration.call_setup import TENANT_A
from integration.replicas import (
    Subscription,
    cluster,
    install,
    open_installed_database,
    prepare_target,
)
from integration.test_postgres15 import POSTGRES_15
from integration.worker_harness import WorkerHarness
from sql.engine import Row, call, claim, complete, count, enqueue, enqueue_one, new_worker

from jobforge import Retry
from jobforge.db.migrate import check
from jobforge.embedded.binaries import OLDEST_MAJOR
from jobforge.types.jobs import Outcome, State

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not POSTGRES_15.exists(), reason="Debian's Postgres 15 is not installed"),
]

# The publication of a database that contains only JobForge; a database's own subscriber needs one
# with everything.
PUBLICATION = (
    "create publication everything for tables in schema jobforge"
    " with (publish_via_partition_root = true)"
)


class AppOnServer(WorkerHarness):
    """The application and its workers, on one of the two servers."""

    def __init__(self, database: Database, conn: Connection) -> None:
        super().__init__(database, conn)
        self.ran = 0

        @self.app.job(isolation="inline", retry=Retry(max_attempts=3, base=0))
        async def work() -> None:
            self.ran += 1


@pytest.fixture
def old_and_new() -> Iterator[tuple[AppOnServer, AppOnServer]]:
    with ExitStack() as stack:
        sides = []
        for binaries in (POSTGRES_15, None):
            server = stack.enter_context(cluster(binaries))
            install(server)
            conn = stack.enter_context(open_installed_database(server))
            sides.append((server, conn))
        (old, source), (new, target) = sides
        yield (
            AppOnServer(Database(source.info.dbname, old), source),
            AppOnServer(Database(target.info.dbname, new), target),
        )


async def test_jobs_continue_after_a_logical_upgrade(
    old_and_new: tuple[AppOnServer, AppOnServer],
) -> None:
    old, new = old_and_new
    source, target = old.conn, new.conn
    assert source.info.server_version // 10000 == OLDEST_MAJOR < target.info.server_version // 10000
    old.register()
    before = enqueue(source, TENANT_A, 20, definition="work")

    # The new server follows the old one, whose workers continue.
    source.execute(PUBLICATION.encode())
    prepare_target(target)
    subscription = Subscription.create(source, target, options=", run_as_owner = true")
    async with old.running_worker(login="postgres"):
        during = enqueue(source, TENANT_A, 20, definition="work")
        for job in (*before, *during):
            await old.wait_for_state(job)

    # The workers are stopped, one of them by a kill. Unfinished jobs remain.
    [held] = _claim_by_a_killed_worker(source)
    lost = held["job_id"]
    waiting = enqueue(source, TENANT_A, 5, definition="work")
    parent = enqueue_one(source, TENANT_A, definition="work")
    child = enqueue_one(source, TENANT_A, definition="work", after=[str(parent)])
    once: dict[str, Any] = {"definition": "work", "key": "once", "delay_s": 3600}
    later = enqueue_one(source, TENANT_A, **once)

    # The switch
    subscription.wait()
    assert subscription.differences() == {}
    subscription.drop()

    check(target)
    call(target, "ensure_partitions")
    assert enqueue_one(target, TENANT_A, **once) == later
    async with new.running_worker(login="postgres"):
        for job in (*waiting, parent, child, lost):
            await new.wait_for_state(job)
    assert (old.ran, new.ran) == (40, 8)
    assert count(target, "finished_jobs") == 48
    assert new.state(later) is State.SCHEDULED
    [first, second] = new.attempts(lost)
    assert [first.outcome, second.outcome] == [Outcome.LEASE_LOST, Outcome.SUCCEEDED]
    assert second.lease > first.lease == held["lease"]
    assert complete(target, held["worker_id"], [held])[0]["status"] == "lost"


def _claim_by_a_killed_worker(conn: Connection) -> list[Row]:
    enqueue_one(conn, TENANT_A, definition="work")
    worker = new_worker()
    return [{**row, "worker_id": worker} for row in claim(conn, worker, lease_s=1)]
