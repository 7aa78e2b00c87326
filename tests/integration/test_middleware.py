"""Middleware and lifecycle hooks in workers, in isolated processes and in the test kit."""

import asyncio
import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Connection, Database
from integration.isolation_rig import IsolationRig, outcome
from integration.worker_harness import WorkerHarness

from jobforge import CallNext, Context, JobForge, calls, db
from jobforge.sdk.loader import load_app
from jobforge.testing import Kit
from jobforge.types.jobs import Outcome, State
from jobforge.worker import Worker

APP = str(Path(__file__).with_name("hooked_app.py"))
PAGE = Path(__file__).parents[2] / "docs" / "howto" / "middleware.md"


@pytest.fixture(scope="module")
def rig() -> Iterator[IsolationRig]:
    rig = IsolationRig(target=APP)
    yield rig
    rig.close()


def test_middleware_wraps_isolated_handlers(rig: IsolationRig) -> None:
    assert rig.result("look")["wrapped"] == "wrapped look"
    assert rig.result("look_async") == "wrapped look_async"


@pytest.mark.parametrize("definition", ["miss", "miss_async"])
def test_an_exception_of_a_middleware_decides_the_outcome(
    rig: IsolationRig, definition: str
) -> None:
    report = rig.run(definition)
    assert outcome(report) is Outcome.CANCELED
    assert report.verdict is not None
    assert report.verdict.reason == "not found"


def test_hooks_run_once_in_the_zygote_and_in_the_process_of_each_job(rig: IsolationRig) -> None:
    first, second = rig.result("look"), rig.result("look")
    assert first["zygote"] == second["zygote"] == [rig.runner.zygote_pid]
    assert first["process"] == [first["pid"]] != second["process"]


def test_a_failed_stop_hook_is_logged_and_keeps_the_outcome(rig: IsolationRig) -> None:
    report = rig.run("look")
    assert outcome(report) is Outcome.SUCCEEDED
    assert "Hook break_down failed" in (report.stderr_tail or "")


def test_a_failed_start_hook_of_a_process_fails_the_attempt() -> None:
    rig = IsolationRig({**os.environ, "LET_THROUGH": "FAIL"}, APP)
    try:
        report = rig.run("look")
    finally:
        rig.close()
    assert outcome(report) is Outcome.FAILED
    assert report.verdict is not None
    assert report.verdict.error is not None
    assert report.verdict.error["message"] == "no connection"


def test_middleware_wraps_the_handlers_of_a_test(jf_test: Kit) -> None:
    jf = JobForge()
    seen: list[str] = []

    @jf.middleware
    async def wrap(ctx: Context, call_next: CallNext) -> object:
        seen.append(ctx.definition)
        return await call_next() * 2

    @jf.job
    async def double(number: int) -> int:
        return number

    @double.on_success
    def done(_: Context, result: int) -> None:
        seen.append(str(result))

    jf_test.use(jf)
    with jf.tenant(jf_test.tenant("acme")):
        double.enqueue(21)
    [ran] = jf_test.drain().jobs
    assert (ran.state, ran.result) == (State.SUCCEEDED, 42)
    assert seen == ["double", "42"]


@pytest.mark.anyio
async def test_middleware_wraps_inline_handlers(database: Database, conn: Connection) -> None:
    harness = WorkerHarness(database, conn)

    @harness.app.middleware
    async def wrap(ctx: Context, call_next: CallNext) -> object:
        return f"<{await call_next()} from {ctx.definition}>"

    @harness.app.job(isolation="inline")
    async def say(word: str) -> str:
        await asyncio.sleep(0)
        return word

    async with harness.running_worker():
        history = await harness.wait_for_state(harness.enqueue("say", {"word": "hi"}))
    assert history.job.result == "<hi from say>"


@pytest.mark.anyio
async def test_worker_hooks_run_before_the_first_job_and_after_the_last(
    database: Database, conn: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    harness = WorkerHarness(database, conn)
    events: list[str] = []

    @harness.app.on_worker_start
    async def open_pool() -> None:
        await asyncio.sleep(0)
        events.append("open")

    @harness.app.on_worker_start
    def load() -> None:
        events.append("load")

    @harness.app.on_worker_stop
    def fail() -> None:
        raise OSError("broken")

    @harness.app.on_worker_stop
    async def close_pool() -> None:
        events.append("close")

    @harness.app.job(isolation="inline")
    async def work() -> None:
        events.append("work")

    harness.register()
    job_id = harness.enqueue("work")
    with caplog.at_level(logging.ERROR, "jobforge"):
        async with harness.running_worker():
            await harness.wait_for_state(job_id)
    assert events == ["open", "load", "work", "close"]
    assert "fail failed" in caplog.text


@pytest.mark.anyio
async def test_a_failed_start_hook_keeps_the_worker_from_starting(
    database: Database, conn: Connection
) -> None:
    harness = WorkerHarness(database, conn)
    stopped: list[str] = []

    @harness.app.on_worker_start
    def fail() -> None:
        raise OSError("no connection")

    harness.app.on_worker_stop(lambda: stopped.append("stopped"))

    @harness.app.job(isolation="inline")
    async def work() -> None: ...

    async with db.Database(database.url_as("worker_login"), size=2) as pool:
        worker: Worker = harness.worker(pool)
        with pytest.raises(OSError, match="no connection"):
            await worker.run()
    assert db.run(conn, calls.list_workers()) == []
    assert stopped == []


@pytest.fixture
def page_app(database: Database, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of the page's app, in a folder with the file that it reads."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SHOP_URL", database.url)
    (folder / "prices.json").write_text('{"tea": 3}')
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    path = folder / f"{folder.name.replace('-', '_')}_page.py"  # modules stay loaded
    path.write_text("\n".join(blocks))
    return str(path)


def test_the_isolated_jobs_of_the_page_run(page_app: str) -> None:
    rig = IsolationRig(target=page_app, job_environment=("SHOP_URL",))
    try:
        assert rig.result("price", article="tea") == 3
    finally:
        rig.close()


@pytest.mark.anyio
async def test_the_inline_jobs_of_the_page_run(
    database: Database, conn: Connection, page_app: str, caplog: pytest.LogCaptureFixture
) -> None:
    harness = WorkerHarness(database, conn)
    harness.app = load_app(page_app)
    inline: Any = harness.app.definitions["count_tables"]
    with caplog.at_level(logging.INFO, "shop"):
        async with harness.running_worker(definitions=[inline]):
            history = await harness.wait_for_state(harness.enqueue("count_tables"))
    assert history.job.result > 0
    assert "count_tables took" in caplog.text
