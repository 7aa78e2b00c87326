"""Workflows with the real worker: requests of isolated and inline jobs."""

import os
from pathlib import Path

import pytest
from cluster import Connection, Database
from integration.call_setup import TENANT_A
from integration.example_programs import load_example
from integration.worker_harness import WorkerHarness, eventually

from jobforge import Context, calls, db
from jobforge.errors import LeaseLost
from jobforge.types.jobs import Token
from jobforge.types.workflows import WorkflowState
from jobforge.worker.isolation.runner import ProcessRunner
from jobforge.worker.runner_protocol import JobServices

pytestmark = pytest.mark.anyio

ETL = Path(__file__).parents[2] / "examples" / "workflows" / "etl.py"


async def test_the_etl_example_runs_in_processes(database: Database, conn: Connection) -> None:
    etl = load_example("workflows", "etl.py")
    harness = WorkerHarness(database, conn)
    harness.app = etl.jf
    harness.register()

    def isolated(host: JobServices) -> ProcessRunner:
        return ProcessRunner(str(ETL), host, environment=os.environ, isolation_level="process")

    with etl.jf.connected_to(database.url_as("service_login")), etl.jf.tenant(TENANT_A):
        nightly = etl.nightly("2026-11-15")
        async with harness.running_worker(runners={"process": isolated}):
            await eventually(lambda: nightly.detail().workflow.state is WorkflowState.SUCCEEDED)
        assert nightly.result() == {"report": "2026-11-15: 4 rows"}


async def test_an_inline_job_adds_to_its_workflow_and_reads_the_results_of_its_parents(
    database: Database, conn: Connection
) -> None:
    harness = WorkerHarness(database, conn)
    app = harness.app

    @app.job(isolation="inline")
    async def part(number: int) -> int:
        return number

    @app.job(isolation="inline")
    async def split(ctx: Context) -> None:
        workflow = await ctx.workflow
        await workflow.aadd(*(part.using(node=f"part-{n}").args(n) for n in workflow.input))

    @app.job(isolation="inline")
    async def add_up(ctx: Context) -> int:
        return sum(result or 0 for result in (await ctx.parents).results)

    harness.register()
    async with app.workflow("sum", input=[1, 2, 3], tenant=TENANT_A) as wf:
        total = add_up.using(after=split.node()).node()
    async with harness.running_worker():
        history = await harness.wait_for_state(total.id)
    assert history.job.result == 6
    assert len(history.parents) == 4
    assert (await wf.handle.await_()).workflow.state is WorkflowState.SUCCEEDED
    await app.aclose()


async def test_a_request_for_a_finished_job_is_refused(
    database: Database, conn: Connection
) -> None:
    harness = WorkerHarness(database, conn)

    @harness.app.job(isolation="inline")
    async def lone(ctx: Context) -> bool:
        return bool(await ctx.workflow)

    harness.register()
    async with harness.running_worker():
        history = await harness.wait_for_state(harness.enqueue("lone"))
    assert history.job.result is False
    [attempt] = history.attempts
    token = Token(TENANT_A, attempt.job_id, attempt.lease)
    with pytest.raises(LeaseLost):
        db.run(conn, calls.load_parents(attempt.worker_id, token))
    with pytest.raises(LeaseLost):
        db.run(conn, calls.add_workflow_jobs(attempt.worker_id, token, []))
