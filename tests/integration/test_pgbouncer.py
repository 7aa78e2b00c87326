"""Calls through a real PgBouncer in transaction mode: no call may depend on its session."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote
from uuid import UUID, uuid4

import psycopg
import pytest
from cluster import LOGINS, Connection, Database, wait_until
from contract.typescript_sdk import node, worker_command
from integration.call_setup import A_JOB, TENANT_A, TENANT_B, WORKER, report

from jobforge import calls, db
from jobforge.calls.call import query
from jobforge.embedded.binaries import account_for
from jobforge.errors import Denied, LeaseLost, TenantRequired
from jobforge.types.jobs import BeatStatus, JobRequest, State

PGBOUNCER = shutil.which("pgbouncer", path=os.defpath + ":/usr/sbin:/usr/local/sbin")
SERVER_CONNECTIONS = 2
CONFIG = """
[databases]
* = host={server.socket_dir} port={server.port}

[pgbouncer]
unix_socket_dir = {folder}
listen_port = 6432
auth_type = trust
auth_file = {folder}/users.txt
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 100
logfile = {folder}/pgbouncer.log
"""

BACKEND: calls.Call[int] = query("select pg_backend_pid()", (), lambda rows: int(rows[0][0]))

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(PGBOUNCER is None, reason="PgBouncer is not installed"),
]


@dataclass(frozen=True, slots=True)
class Pooler:
    folder: Path
    database: Database

    def url(self, login: str) -> str:
        return (
            f"postgresql://{login}@/{self.database.name}?host={quote(str(self.folder))}&port=6432"
        )


@pytest.fixture
def pooler(database: Database, mail: None, folder: Path) -> Iterator[Pooler]:  # noqa: ARG001
    """Run a PgBouncer in front of the test's database, as the user who runs the server."""
    server = database.server
    account = account_for(server.socket_dir)
    config = folder / "pgbouncer.ini"
    config.write_text(CONFIG.format(server=server, folder=folder, size=SERVER_CONNECTIONS))
    (folder / "users.txt").write_text("".join(f'"{login}" ""\n' for login in LOGINS))
    if account:
        account.take_ownership(folder)
    created = Pooler(folder, database)
    with subprocess.Popen(
        [str(PGBOUNCER), "-q", str(config)],
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        stdin=subprocess.DEVNULL,
    ) as process:
        try:
            wait_until(lambda: _answers(created.url("client_login")))
            yield created
        finally:
            process.terminate()


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture
async def client(pooler: Pooler) -> AsyncIterator[db.Database]:
    url = pooler.url("client_login")
    async with db.Database(url, size=8, behind_pooler=True) as opened:
        yield opened


@pytest.fixture
async def worker(pooler: Pooler) -> AsyncIterator[db.Database]:
    url = pooler.url("worker_login")
    async with db.Database(url, size=8, behind_pooler=True) as opened:
        yield opened


async def test_a_job_is_enqueued_run_and_settled(client: db.Database, worker: db.Database) -> None:
    await worker.run(calls.register_worker(WORKER, ["default"], slots=1))
    enqueued = await client.run(calls.enqueue_job(A_JOB).for_tenant(TENANT_A))
    [job] = await worker.run(calls.claim_jobs(WORKER, {"default": 5}))
    assert (job.job_id, job.payload) == (enqueued.job_id, {"to": "ada"})

    [beat] = (await worker.run(calls.heartbeat_jobs(WORKER, [job.token]))).jobs
    assert beat.status is BeatStatus.OK
    with pytest.raises(LeaseLost):
        await worker.run(calls.heartbeat_job(WORKER, job.token._replace(lease=1)))

    [settled] = await worker.run(
        calls.complete_jobs(WORKER, [report(job, result={"by": "worker"})])
    )
    assert settled.state is State.SUCCEEDED
    async with client.tenant(TENANT_A) as scope:
        history = await scope.run(calls.get_job(job.job_id))
    assert history.job.result == {"by": "worker"}


@pytest.mark.attack("tenancy")
async def test_a_bound_login_stays_bound_in_every_session_of_its_pool(
    pooler: Pooler, conn: Connection
) -> None:
    db.run(conn, calls.bind_login("bound_service_login", [TENANT_A]))
    url = pooler.url("bound_service_login")
    with db.connect(url, behind_pooler=True) as first:
        first.execute("select set_config('app.tenant_id', %s, false)", [str(TENANT_B)])
    with db.connect(url, behind_pooler=True) as second:
        for _ in range(2 * SERVER_CONNECTIONS):
            with pytest.raises(Denied):
                db.run(second, calls.list_jobs().for_tenant(TENANT_B))
            assert db.run(second, calls.list_jobs().for_tenant(TENANT_A)) == []


async def test_a_sync_connection_works_too(pooler: Pooler) -> None:
    with db.connect(pooler.url("client_login"), behind_pooler=True) as conn:
        with db.tenant(conn, TENANT_A):
            db.run(conn, calls.enqueue_job(A_JOB))
            db.run(conn, calls.enqueue_job(A_JOB))
        assert len(db.run(conn, calls.list_jobs().for_tenant(TENANT_A))) == 2


async def test_eight_tasks_on_two_server_connections_do_not_interfere(
    client: db.Database, worker: db.Database
) -> None:
    backends: set[int] = set()

    async def work(tenant: UUID) -> None:
        myself = uuid4()
        for number in range(1, 11):
            await client.run(calls.enqueue_jobs([A_JOB, A_JOB]).for_tenant(tenant))
            async with client.tenant(tenant) as scope:
                await scope.run(calls.enqueue_job(A_JOB))
                assert len(await scope.run(calls.list_jobs())) == 3 * number
            jobs = await worker.run(calls.claim_jobs(myself, {"default": 9}, tenants=[tenant]))
            assert {job.tenant_id for job in jobs} == {tenant}
            beat = await worker.run(calls.heartbeat_jobs(myself, [job.token for job in jobs]))
            assert {job.status for job in beat.jobs} == {BeatStatus.OK}
            settled = await worker.run(calls.complete_jobs(myself, [report(job) for job in jobs]))
            assert [answer.state for answer in settled] == [State.SUCCEEDED] * 3
            with pytest.raises(TenantRequired):
                await client.run(calls.list_jobs())
            backends.add(await client.run(BACKEND))

    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(work(uuid4()))
    assert 1 <= len(backends) <= SERVER_CONNECTIONS


async def test_a_tenant_does_not_leak_to_other_clients_of_the_server_connection(
    client: db.Database, pooler: Pooler
) -> None:
    await client.run(calls.enqueue_job(A_JOB).for_tenant(TENANT_A))
    # One scope keeps a server connection, so all others use the second one in turn.
    async with client.tenant(TENANT_A) as scope:
        used = await scope.run(BACKEND)
        shared = {await client.run(BACKEND) for _ in range(3)}
        assert len(shared) == 1
        assert used not in shared
        assert len(await client.run(calls.list_jobs().for_tenant(TENANT_A))) == 1
        assert await client.run(calls.list_jobs().for_tenant(TENANT_B)) == []
        with pytest.raises(TenantRequired):
            await client.run(calls.list_jobs())
        with db.connect(pooler.url("client_login"), behind_pooler=True) as other:
            assert {db.run(other, BACKEND)} == shared
            assert other.execute("select from jobforge.all_jobs").rowcount == 0


async def test_timeouts_behind_a_pooler_are_settings_of_the_login(
    pooler: Pooler, conn: Connection
) -> None:
    conn.execute(
        f"alter role service_login in database {pooler.database.name} set lock_timeout = '2s'"
    )
    async with db.Database(pooler.url("service_login"), behind_pooler=True) as service:
        found = await service.inspect()
    assert (found.is_behind_pooler, found.lock_timeout_ms) == (True, 2000)


def test_a_typescript_worker_works_through_it(
    pooler: Pooler, conn: Connection, tmp_path: Path
) -> None:
    command = [*worker_command("faults_app.ts"), "--queues", "faults:4"]
    settings = {
        "JOBFORGE_DATABASE_URL": pooler.url("worker_login"),
        "JOBFORGE_BEHIND_POOLER": "true",
    }
    payload = {"marks": str(tmp_path / "marks"), "seconds": 0}
    requests = [JobRequest(definition, payload) for definition in ("light",) * 30 + ("work",)]
    with subprocess.Popen(command, env=node().environment() | settings) as worker:
        try:
            wait_until(lambda: len(db.run(conn, calls.list_workers())) == 1, within_s=60)
            created = db.run(conn, calls.enqueue_jobs(requests, tenant_id=TENANT_A))
            finished = "select count(*) as count from jobforge.finished_jobs"
            wait_until(lambda: conn.execute(finished).fetchone() == {"count": len(created)})
        finally:
            worker.terminate()
            worker.wait(60)
    assert worker.returncode == 0
