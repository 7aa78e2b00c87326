"""Single enqueue requests that are stored together, each with its own response."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest
from cluster import Connect, Connection, Database, wait_until

from jobforge import db
from jobforge.api import payload_check
from jobforge.api.enqueue_batcher import EnqueueBatcher
from jobforge.errors import DuplicateKey, JobForgeError, UnknownDefinition
from jobforge.types.jobs import Enqueued, EnqueueStatus, JobRequest

pytestmark = pytest.mark.anyio

PLAIN = JobRequest("plain")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def creations(database: Database, conn: Connection) -> AsyncIterator[EnqueueBatcher]:
    conn.execute("select jobforge.put_definition('plain', 1)")
    async with db.Database(database.url_as("server_login"), size=4) as opened:
        yield EnqueueBatcher(opened)


def _transactions(conn: Connection) -> int:
    """Return the number of transactions that created jobs."""
    row = conn.execute("select count(distinct xmin::text) as n from jobforge.jobs").fetchone()
    assert row is not None
    return int(row["n"])


def _is_waited_for(conn: Connection) -> bool:
    """Return whether a session waits for a lock in this database."""
    waiting = conn.execute(
        "select from pg_stat_activity"
        " where datname = current_database() and wait_event_type = 'Lock'"
    )
    return bool(waiting.fetchall())


async def _gather(
    creations: EnqueueBatcher, tenant_id: UUID, jobs: list[JobRequest]
) -> list[Enqueued | BaseException]:
    wishes = (creations.enqueue(tenant_id, job) for job in jobs)
    return await asyncio.gather(*wishes, return_exceptions=True)


async def test_concurrent_jobs_are_stored_together(
    creations: EnqueueBatcher, conn: Connection
) -> None:
    created = await _gather(creations, uuid4(), [PLAIN] * 100)
    assert len({each.job_id for each in created if isinstance(each, Enqueued)}) == 100
    assert _transactions(conn) == 2  # the first job, and all jobs that arrived in the meantime


async def test_a_refused_job_does_not_affect_the_others(creations: EnqueueBatcher) -> None:
    taken = PLAIN._replace(key="once", on_conflict="raise")
    unknown = JobRequest("nobody")
    created = await _gather(
        creations, uuid4(), [PLAIN, unknown, PLAIN, taken, taken, PLAIN, unknown]
    )
    kinds = [type(each) for each in created]
    assert kinds.count(Enqueued) == 4
    assert [kinds[1], kinds[6]] == [UnknownDefinition, UnknownDefinition]
    assert kinds.count(DuplicateKey) == 1
    assert created[0] != created[2]


async def test_jobs_of_different_tenants_are_stored_separately(
    creations: EnqueueBatcher, conn: Connection
) -> None:
    tenants = [uuid4() for _ in range(3)]
    wishes = [creations.enqueue(tenant, PLAIN) for tenant in tenants for _ in range(5)]
    created = await asyncio.gather(*wishes)
    rows = conn.execute("select id, tenant_id from jobforge.jobs").fetchall()
    owners = {row["id"]: row["tenant_id"] for row in rows}
    asked = [tenant for tenant in tenants for _ in range(5)]
    assert [owners[each.job_id] for each in created] == asked


async def test_a_canceled_request_does_not_affect_the_others(
    creations: EnqueueBatcher, conn: Connection, connect: Connect
) -> None:
    tenant_id = uuid4()
    holding = connect(autocommit=False)
    holding.execute("lock table jobforge.jobs in share mode")
    tasks = [asyncio.create_task(creations.enqueue(tenant_id, PLAIN)) for _ in range(6)]
    # The first call is running and cannot finish; the others are queued.
    await asyncio.to_thread(wait_until, lambda: _is_waited_for(conn))
    tasks[0].cancel()
    tasks[3].cancel()
    holding.rollback()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    for given_up in (0, 3):
        assert isinstance(answers[given_up], asyncio.CancelledError)
    others = [answer for index, answer in enumerate(answers) if index not in {0, 3}]
    for answer in others:
        assert isinstance(answer, Enqueued | JobForgeError)
    again = await creations.enqueue(tenant_id, PLAIN)
    assert again.status is EnqueueStatus.CREATED


@pytest.mark.parametrize("job", [PLAIN, PLAIN._replace(version=1), JobRequest("plain@1")])
async def test_a_definition_is_loaded_once(
    database: Database, connect: Connect, monkeypatch: pytest.MonkeyPatch, job: JobRequest
) -> None:
    monkeypatch.setattr(payload_check, "_REMEMBERED_S", float("inf"))
    holding = connect(autocommit=False)
    holding.execute("select jobforge.put_definition('plain', 1)")
    holding.commit()
    async with db.Database(database.url_as("server_login")) as opened:
        checks = payload_check.PayloadChecker(opened)
        await checks.check([job], path="payload")
        holding.execute("lock table jobforge.definitions")  # a request now would get no response
        await checks.check([job], path="payload")
    holding.rollback()
