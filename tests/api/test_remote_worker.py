"""The worker over HTTP: it runs, extends and settles jobs with a key and without a database."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from api.api_server import ApiServer, TenantKeys
from api.faulty_proxy import Fault, FaultyProxy
from cluster import wait_until
from integration.terminal import Terminal
from integration.worker_harness import eventually
from sql.engine import call_for_value, enqueue_one, state_of

from jobforge import Context, JobForge, Retry, calls, db, errors
from jobforge.client.address import server_address
from jobforge.client.worker_engine import WORKER_ROUTES, HttpEngine
from jobforge.types.job_history import JobHistory
from jobforge.worker import Worker

APP = """
from jobforge import Context, JobForge
from jobforge.errors import Conflict

jf = JobForge()


@jf.job(key="parent")
def parent(ctx: Context, n: int) -> int:
    ctx.log.info("hello")
    child.enqueue(n + 1)
    return n


@jf.job(key="light", isolation="inline")
async def light(n: int) -> None:
    try:
        child.enqueue(n)
    except Conflict:
        await child.aenqueue(n + 1)


@jf.job(key="child")
def child(n: int) -> int:
    return n
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def proxy(api: ApiServer) -> Iterator[FaultyProxy]:
    with FaultyProxy(api.url).serving() as opened:
        yield opened


def history(api: ApiServer, party: TenantKeys, job_id: UUID) -> JobHistory:
    return db.run(api.conn, calls.get_job(job_id, tenant_id=party.tenant_id))


@asynccontextmanager
async def working(app: JobForge, url: str, key: str, **options: Any) -> AsyncIterator[Worker]:
    """Run a worker in this loop until the end of the block."""
    given = {"queues": {"default": 10}, "lease_s": 4.0, "heartbeat_s": 0.5}
    async with open_server_database(url, key) as server, asyncio.TaskGroup() as group:
        worker = Worker(app, server, poll_s=server.poll_s, **{**given, **options})
        running = group.create_task(worker.run())
        try:
            await eventually(lambda: running.done() or worker.is_running)
            yield worker
        finally:
            worker.stop()
            worker.stop()


@asynccontextmanager
async def open_server_database(url: str, key: str) -> AsyncIterator[HttpEngine]:
    server = HttpEngine(server_address(url, key))
    try:
        await server.open()
        yield server
    finally:
        await server.close()


def register(api: ApiServer, app: JobForge) -> None:
    for call in app.registrations():
        db.run(api.conn, call)


@pytest.mark.anyio
async def test_a_tenants_worker_runs_jobs_of_its_tenant_like_any_worker(api: ApiServer) -> None:
    app = JobForge("postgresql://nowhere.example.com/none")
    may_end = asyncio.Event()

    @app.job(isolation="inline")
    async def echo(ctx: Context, n: int) -> int:
        await ctx.progress(1, 1, "half")
        ctx.log.info("said")
        return n

    @app.job(isolation="inline", retry=1)
    async def fail() -> None:
        raise ValueError("no")

    @app.job(isolation="inline")
    async def wait() -> None:
        await may_end.wait()

    register(api, app)
    foreign = enqueue_one(api.conn, api.b.tenant_id, definition="echo", payload={"n": 1})
    own = [
        enqueue_one(api.conn, api.a.tenant_id, definition=name, payload=payload)
        for name, payload in (
            ("echo", {"n": 2**80}),
            ("echo", {"n": 2}),
            ("fail", {}),
            ("wait", {}),
        )
    ]

    def states() -> list[str]:
        return [state_of(api.conn, api.a.tenant_id, job_id) for job_id in own]

    async with working(app, api.url, api.a.keys["worker"]):
        # No result may be that long, so the job fails permanently.
        await eventually(lambda: states() == ["dead", "succeeded", "dead", "running"])
        db.run(api.conn, calls.cancel_job(own[3], tenant_id=api.a.tenant_id))
        # the next heartbeat delivers the cancel request
        await eventually(lambda: states()[3] == "canceled")
    echoed = history(api, api.a, own[1])
    assert echoed.job.result == 2
    notes = db.run(api.conn, calls.list_notes(own[1], tenant_id=api.a.tenant_id))
    assert [note.kind for note in notes] == ["progress", "log"]
    error = history(api, api.a, own[2]).job.error
    assert error is not None
    assert error["type"] == "ValueError"
    assert state_of(api.conn, api.b.tenant_id, foreign) == "queued"
    [worker] = [each for each in db.run(api.conn, calls.list_workers()) if each.state == "stopped"]
    assert worker.memory_bytes
    assert worker.clock_skew_s is not None
    assert worker.running == 0


@pytest.mark.anyio
async def test_steps_waits_and_children_work_without_a_database(api: ApiServer) -> None:
    app = JobForge("postgresql://nowhere.example.com/none")
    done: list[str] = []

    @app.job(isolation="inline")
    async def double(n: int) -> int:
        return 2 * n

    @app.job(isolation="inline", retry=Retry(base=0.01))
    async def durable(ctx: Context) -> list[int]:
        await ctx.astep("once", done.append, "once")
        children = [await ctx.aenqueue(double, n) for n in range(2)]
        if ctx.attempt == 1:
            raise OSError("a second failure")
        event = await ctx.wait_for_event("word", {"to.id": 7}, timeout=3600)
        await ctx.sleep(0)
        return [*await ctx.gather(children), event.data["to"]["id"]]

    register(api, app)
    api.conn.execute("delete from jobforge.jobs")
    tenant = api.a.tenant_id
    async with working(app, api.url, api.a.keys["worker"]):
        job_id = enqueue_one(api.conn, tenant, definition="durable")
        await eventually(lambda: api.conn.execute("select from jobforge.waits").rowcount == 1)
        [*_, waiting] = api.client("viewer").get(f"/jobs/{job_id}/steps").json()["items"]
        assert (waiting["state"], waiting["match"]) == ("waiting", {"to": {"id": 7}})
        data = {"to": {"id": 7}}
        arguments = {"tenant_id": tenant, "event_id": uuid4(), "name": "word", "data": data}
        call_for_value(api.conn, "jobforge_private.resume_waits", **arguments)
        await eventually(lambda: state_of(api.conn, tenant, job_id) == "succeeded")
    assert history(api, api.a, job_id).job.result == [0, 2, 7]
    assert done == ["once"]
    listed = api.client("viewer").get(f"/jobs/{job_id}/steps").json()["items"]
    kinds = [step["kind"] for step in listed]
    assert kinds == ["step", "enqueue", "enqueue", "event", "sleep", "gather"]
    assert api.client("viewer", api.b).get(f"/jobs/{job_id}/steps").status_code == 404


@pytest.mark.anyio
@pytest.mark.parametrize("fault", ["down", "throttled"])
async def test_jobs_finished_during_a_server_outage_are_settled_afterwards(
    api: ApiServer, proxy: FaultyProxy, fault: Fault
) -> None:
    app = JobForge("postgresql://nowhere.example.com/none")
    started, may_end = asyncio.Event(), asyncio.Event()

    @app.job(isolation="inline", key="cut")
    async def cut() -> str:
        started.set()
        await may_end.wait()
        return "done"

    register(api, app)
    async with working(app, proxy.url, api.create_key("worker", None), lease_s=30.0):
        job_id = enqueue_one(api.conn, api.b.tenant_id, definition="cut")
        await asyncio.wait_for(started.wait(), 30)
        proxy.always = fault
        asked = len(proxy.requests)
        may_end.set()
        await eventually(lambda: "POST /api/v1/worker/jobs/complete" in proxy.requests[asked:])
        proxy.always = None
        await eventually(lambda: state_of(api.conn, api.b.tenant_id, job_id) == "succeeded")
    [attempt] = history(api, api.b, job_id).attempts
    assert attempt.outcome == "succeeded"


@pytest.mark.anyio
async def test_a_worker_is_refused_by_another_role_and_by_unknown_definitions(
    api: ApiServer,
) -> None:
    with pytest.raises(errors.Denied, match="viewer"):
        async with open_server_database(api.url, api.a.keys["viewer"]):
            pytest.fail("the worker must not start")
    app = JobForge("postgresql://nowhere.example.com/none")

    @app.job(isolation="inline")
    async def unheard_of() -> None: ...

    async with open_server_database(api.url, api.a.keys["worker"]) as server:
        worker = Worker(app, server, queues={"default": 1})
        with pytest.raises(errors.Denied, match="unheard_of"):
            await worker.run()


def test_every_call_of_a_worker_has_a_route() -> None:
    source = Path(calls.__file__).parent.parent / "worker"
    text = "".join(path.read_text(encoding="utf-8") for path in source.glob("*.py"))
    called = {name for name in dir(calls) if f"calls.{name}(" in text}
    # A job that creates workflows or batches needs a worker with a database.
    created = {"enqueue_workflow", "create_batch", "add_to_batch", "close_batch"}
    # The server retries a claim with an unreadable payload itself; with a database the worker does.
    repeated = {"claim_readable_jobs"}
    assert called - WORKER_ROUTES.keys() <= {"advance_operations", *created, *repeated}


def test_the_command_runs_jobs_that_enqueue_jobs_and_drains(api: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    key = api.create_key("worker", None)
    shell = Terminal(tmp_path, JOBFORGE_SERVER=api.url, JOBFORGE_KEY=key)
    with shell.start("worker", "app.py", "--concurrency", "2") as worker:
        worker.wait_for("worker.started")
        parent = enqueue_one(api.conn, api.a.tenant_id, definition="parent", payload={"n": 1})
        enqueue_one(api.conn, api.b.tenant_id, definition="light", payload={"n": 2})
        wait_until(lambda: len(_results(api, "child")) == 2)
        worker.signal(signal.SIGTERM)
        assert worker.wait_for_exit() == 0
    assert key not in worker.output
    assert sorted(_results(api, "child")) == [2, 3]
    assert history(api, api.a, parent).job.state == "succeeded"


def _results(api: ApiServer, definition: str) -> list[Any]:
    rows = api.conn.execute(
        "select result from jobforge.finished_jobs where definition = %s", [definition]
    )
    return [row["result"] for row in rows]


def test_the_command_exits_when_the_server_refuses_its_key(api: ApiServer, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    ended = Terminal(tmp_path).run("worker", "--server", api.url, "--key", "jf_wrong")
    assert (ended.returncode, "Invalid API key" in ended.stderr) == (4, True), ended.stderr
