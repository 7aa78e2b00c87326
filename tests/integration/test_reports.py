"""`connector.report.generate` in a real worker: the sources of rows, and the generated files."""

import csv
import io
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from cluster import Connection, Database
from integration.artifact_stores import artifacts_in_folder
from integration.call_setup import TENANT_A, TENANT_B
from integration.worker_harness import WorkerHarness

from jobforge import JobForge, calls, connectors, db
from jobforge.artifacts import Artifacts
from jobforge.artifacts.artifact_reference import find_artifact_key
from jobforge.artifacts.keys import new_key, read_ref
from jobforge.config import Config
from jobforge.types.jobs import Job, JobRequest, State

pytestmark = pytest.mark.anyio

REPORT = "connector.report.generate"


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return artifacts_in_folder(tmp_path)


@pytest.fixture
async def harness(database: Database, conn: Connection) -> WorkerHarness:
    created = WorkerHarness(database, conn)
    created.app = JobForge(database.url)

    @created.app.job(isolation="inline")
    async def sell(n: int) -> dict[str, Any]:
        rows = [{"order": number, "customer": {"name": "=Ada"}} for number in range(n)]
        return {"rows": rows, "password": "hidden"}

    return created


@pytest.fixture
async def working(
    harness: WorkerHarness, artifacts: Artifacts, tmp_path: Path
) -> AsyncIterator[WorkerHarness]:
    config = Config(artifacts=str(tmp_path), database_url=harness.database.url)
    queues = {"default": 5, connectors.QUEUE: 5}
    async with db.Database(harness.database.url_as("worker_login"), size=2) as pool:
        make = partial(
            connectors.make_connectors,
            services=connectors.ConnectorServices(pool.run, config),
            client=harness.app.client,
        )
        async with harness.running_worker(queues=queues, make_connectors=make, artifacts=artifacts):
            yield harness


async def _report(
    harness: WorkerHarness, source: dict[str, Any], kind: str = "json", **more: Any
) -> Job:
    payload = {"format": kind, "source": source, **more}
    return (await harness.wait_for_state(harness.enqueue(REPORT, payload, max_attempts=1))).job


def _content(artifacts: Artifacts, job: Job) -> bytes:
    assert job.artifact_ref == job.result["artifact"]
    key = read_ref(job.artifact_ref, TENANT_A)
    assert key.folder == job.id
    found = b"".join(artifacts.store.open(key.path))
    assert len(found) == job.result["bytes"]
    return found


async def test_rows_of_the_payload_are_written_as_each_kind_of_file(
    working: WorkerHarness, artifacts: Artifacts
) -> None:
    rows = [{"a": "=1+1", "b": {"c": 2}}, {"a": "<b>", "b": None}]
    choice: dict[str, Any] = {
        "columns": ["a", {"field": "b.c", "title": "Deep"}],
        "title": "Of <mine>",
    }
    created = await _report(working, {"rows": rows}, "csv", **choice)
    assert _content(artifacts, created) == b"a,Deep\r\n'=1+1,2\r\n<b>,\r\n"
    assert (created.result["rows"], created.result["truncated"]) == (2, False)
    page = _content(artifacts, await _report(working, {"rows": rows}, "html", **choice))
    assert b"<h1>Of &lt;mine&gt;</h1>" in page
    assert b"<b>" not in page
    document = json.loads(_content(artifacts, await _report(working, {"rows": rows}, **choice)))
    assert document["rows"] == [{"a": "=1+1", "Deep": 2}, {"a": "<b>", "Deep": None}]


async def test_a_small_or_large_result_of_a_job_can_be_reported(
    working: WorkerHarness, artifacts: Artifacts
) -> None:
    for n in (3, 30_000):  # the second result is in the store
        job_id = working.enqueue("sell", {"n": n})
        await working.wait_for_state(job_id)
        source = {"job_id": str(job_id), "path": "rows"}
        created = await _report(working, source, "csv", columns=["order", "customer.name"])
        lines = list(csv.reader(io.StringIO(_content(artifacts, created).decode())))
        assert (lines[0], lines[1]) == (["order", "customer.name"], ["0", "'=Ada"])
        assert (len(lines), created.result["rows"]) == (n + 1, n)


async def test_a_large_payload_stays_referenced_after_its_report(
    working: WorkerHarness, artifacts: Artifacts
) -> None:
    """An artifact without a job is swept after some days, and a retry would miss it."""
    source = {"rows": [{"text": "x" * 1_000}] * 400}
    request = JobRequest(REPORT, {"format": "csv", "source": source}, max_attempts=1)
    [named] = artifacts.put_payloads(TENANT_A, [request])
    enqueued = db.run(working.conn, calls.enqueue_job(named, tenant_id=TENANT_A))
    job = (await working.wait_for_state(enqueued.job_id)).job
    assert job.artifact_ref == named.artifact_ref
    created = find_artifact_key(job)
    assert created.ref == job.result["artifact"]
    assert created.folder == job.id
    assert len(b"".join(artifacts.store.open(created.path))) == job.result["bytes"]


async def test_a_list_of_jobs_has_only_jobs_of_the_tenant(
    working: WorkerHarness, artifacts: Artifacts
) -> None:
    foreign = JobRequest("sell", {"n": 1}, tags=["of-b"])
    db.run(working.conn, calls.enqueue_jobs([foreign] * 3, tenant_id=TENANT_B))
    own = [JobRequest("sell", {"n": 0}, tags=["own"])] * 450
    created = db.run(working.conn, calls.enqueue_jobs(own, tenant_id=TENANT_A))
    which = {"jobs": {"definition": "sell"}}
    listed = json.loads(_content(artifacts, await _report(working, which, columns=["id", "tags"])))
    assert {row["id"] for row in listed["rows"]} == {str(each.job_id) for each in created}
    cut = await _report(working, which, "html", max_rows=10)
    assert (cut.result["rows"], cut.result["truncated"]) == (10, True)
    assert b"there are more" in _content(artifacts, cut)


async def test_rows_of_an_artifact_are_read_whole_or_line_by_line(
    working: WorkerHarness, artifacts: Artifacts
) -> None:
    first = await _report(working, {"rows": [{"n": n} for n in range(5)]})
    again = await _report(working, {"artifact": first.artifact_ref}, "csv")
    assert _content(artifacts, again) == b"n\r\n0\r\n1\r\n2\r\n3\r\n4\r\n"
    lines = (b'{"n": %d, "pad": "%b"}\n' % (number, b"x" * 990) for number in range(10_000))
    large = artifacts.put(new_key(TENANT_A, uuid4(), "rows.jsonl"), lines)
    created = await _report(working, {"artifact": large.ref}, "csv", columns=["n"])
    assert created.result["rows"] == 10_000
    assert _content(artifacts, created).endswith(b"\r\n9999\r\n")


async def test_foreign_missing_and_invalid_sources_are_refused(
    working: WorkerHarness, artifacts: Artifacts
) -> None:
    theirs = JobRequest("sell", {"n": 1})
    (foreign,) = db.run(working.conn, calls.enqueue_jobs([theirs], tenant_id=TENANT_B))
    of_b = artifacts.put(new_key(TENANT_B, uuid4(), "report.json"), b"[{}]")
    text = artifacts.put(new_key(TENANT_A, uuid4(), "report.json"), b"no json\n")
    done = working.enqueue("sell", {"n": 0})
    await working.wait_for_state(done)
    for source in (
        {"job_id": str(foreign.job_id)},
        {"job_id": str(uuid4())},
        {"job_id": str(done), "path": "password"},
        {"artifact": of_b.ref},
        {"artifact": f"artifact:{TENANT_A}/2026-01-01/../../../etc/passwd"},
        {"artifact": text.ref},
        {"rows": [1]},
        {"rows": [], "job_id": str(done)},
        {},
    ):
        payload = {"format": "csv", "source": source}
        job = (await working.wait_for_state(working.enqueue(REPORT, payload), State.DEAD)).job
        assert job.attempt == 1, source
        assert job.artifact_ref is None
