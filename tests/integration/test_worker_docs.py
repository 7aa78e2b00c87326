"""The example of docs/worker.md works as shown."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from cluster import Connection, Database
from integration.worker_harness import WorkerHarness, eventually

from jobforge import calls, db

pytestmark = pytest.mark.anyio

PAGE = Path(__file__).parents[2] / "docs" / "worker.md"


async def test_the_example_of_the_page_runs_a_job_until_it_is_stopped(
    database: Database, conn: Connection
) -> None:
    [example] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(example, str(PAGE), "exec"), names)  # noqa: S102 - the project's own page
    harness = WorkerHarness(database, conn)
    running = asyncio.create_task(names["main"](database.url_as("worker_login")))
    await eventually(lambda: running.done() or bool(db.run(conn, calls.list_workers())))
    history = await harness.wait_for_state(harness.enqueue("greet", {"name": "Ada"}))
    assert history.job.result == "Hello, Ada"
    [worker] = db.run(conn, calls.list_workers())
    db.run(conn, calls.stop_worker(worker.id))
    await running
