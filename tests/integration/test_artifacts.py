"""Payloads and results that are too large for a row, from the app to the handler and back."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from cluster import Clock, Connection, Database
from integration.artifact_app import ArtifactJobs, define
from integration.artifact_stores import (
    CREDENTIALS,
    LIMIT,
    artifacts_in_bucket,
    artifacts_in_folder,
    new_bucket,
    s3_server,
)
from integration.call_setup import TENANT_A, TENANT_B
from integration.worker_harness import WorkerHarness, eventually

from jobforge import JobForge, calls, db, errors
from jobforge.artifacts import ArtifactKey, Artifacts
from jobforge.artifacts.artifact_reference import Marker, marker_from_json
from jobforge.artifacts.erasure import erase_artifacts
from jobforge.artifacts.keys import new_key
from jobforge.artifacts.sweep import sweep_artifacts
from jobforge.payloads.size import PAYLOAD_LIMIT, fits
from jobforge.types.jobs import JobRequest, Outcome, State
from jobforge.worker import Worker
from jobforge.worker.inline import InlineRunner
from jobforge.worker.isolation.runner import ProcessRunner
from jobforge.worker.runner_protocol import JobServices

pytestmark = pytest.mark.anyio

APP = str(Path(__file__).with_name("artifact_app.py"))
LARGE = "ü5" * 1_700_000  # five megabytes


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    with s3_server() as address:
        yield address


@pytest.fixture
def artifacts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Artifacts:
    monkeypatch.setenv("JOBFORGE_ARTIFACTS", str(tmp_path / "artifacts"))
    return artifacts_in_folder(tmp_path / "artifacts")


@pytest.fixture
def notes() -> list[Any]:
    return []


@pytest.fixture
async def harness(database: Database, conn: Connection) -> AsyncIterator[WorkerHarness]:
    created = WorkerHarness(database, conn)
    created.app = JobForge(database.url, tenant=TENANT_A)
    yield created
    await created.app.aclose()


@pytest.fixture
def jobs(harness: WorkerHarness, notes: list[Any]) -> ArtifactJobs:
    defined = define(harness.app, notes)
    harness.register()
    return defined


@asynccontextmanager
async def _working(
    harness: WorkerHarness, artifacts: Artifacts | None, login: str = "worker_login"
) -> AsyncIterator[Worker]:
    def isolated(host: JobServices) -> ProcessRunner:
        return ProcessRunner(APP, host, environment=os.environ, isolation_level="process")

    runners = {"process": isolated, "inline": InlineRunner}
    async with harness.running_worker(runners=runners, artifacts=artifacts, login=login) as worker:
        yield worker


async def _round_trip(harness: WorkerHarness, jobs: ArtifactJobs, artifacts: Artifacts) -> None:
    async with _working(harness, artifacts):
        handle = await jobs.double.aenqueue(text=LARGE)
        assert await handle.aresult(30) == LARGE + LARGE
    job = harness.history(handle.id).job
    payload, result = marker_from_json(job.payload), marker_from_json(job.result)
    assert payload
    assert result
    assert job.artifact_ref == payload.ref
    assert result.ref.split("/")[2] == str(handle.id)
    assert json.loads(artifacts.read(payload, TENANT_A)) == {"text": LARGE}


async def test_an_isolated_job_handles_five_megabytes_with_a_folder(
    harness: WorkerHarness, jobs: ArtifactJobs, artifacts: Artifacts
) -> None:
    await _round_trip(harness, jobs, artifacts)


async def test_an_isolated_job_handles_five_megabytes_with_s3(
    harness: WorkerHarness, jobs: ArtifactJobs, s3: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_bucket(s3)
    monkeypatch.setenv("JOBFORGE_ARTIFACTS", url)
    monkeypatch.setenv("JOBFORGE_ARTIFACTS_ACCESS_KEY", CREDENTIALS["access_key_id"])
    monkeypatch.setenv("JOBFORGE_ARTIFACTS_SECRET_KEY", CREDENTIALS["secret_access_key"])
    await _round_trip(harness, jobs, artifacts_in_bucket(url))


async def test_inline_jobs_and_their_hooks_get_the_whole_payload(
    harness: WorkerHarness, jobs: ArtifactJobs, artifacts: Artifacts, notes: list[Any]
) -> None:
    async with _working(harness, artifacts):
        handle = await jobs.repeat.aenqueue(text="r" * 700_000, times=2)
        assert await handle.aresult(30) == ["r" * 700_000] * 2
        await eventually(lambda: bool(notes))
    assert notes == [({"text": "r" * 700_000, "times": 2}, ["r" * 700_000] * 2)]
    small = harness.history(handle.id).job
    assert len(json.dumps([small.payload, small.result])) < 1_000


async def test_a_job_can_enqueue_large_payloads(
    harness: WorkerHarness, jobs: ArtifactJobs, artifacts: Artifacts
) -> None:
    async with _working(harness, artifacts, "admin_login"):
        child = UUID(await (await jobs.pass_on.aenqueue(size=600_000)).aresult(30))
        job = (await harness.wait_for_state(child)).job
    client = harness.app.client
    assert await client.get_result(client.awaiting, job) == "p" * 1_200_000


async def test_jobs_get_the_large_results_of_other_jobs(
    harness: WorkerHarness, jobs: ArtifactJobs, artifacts: Artifacts
) -> None:
    async with _working(harness, artifacts):
        parent = await jobs.repeat.aenqueue(text="r" * 700_000, times=2)
        child = await jobs.count.using(after=parent).aenqueue()
        gathering = await jobs.count_own.aenqueue()
        assert await child.aresult(30) == [2]
        assert await gathering.aresult(30) == [120]


@pytest.mark.usefixtures("artifacts")
async def test_a_worker_without_a_store_fails_the_job_with_the_reason(
    harness: WorkerHarness, jobs: ArtifactJobs
) -> None:
    async with _working(harness, None):
        large = await jobs.double.using(max_attempts=1).aenqueue(text=LARGE)
        error = (await harness.wait_for_state(large.id, State.DEAD)).job.error
        assert error
        assert error["type"] == "ArtifactUnavailable"
        assert "set artifacts" in error["message"]
        result = await jobs.repeat.aenqueue(text="r" * 1000, times=2000)
        error = (await harness.wait_for_state(result.id, State.DEAD)).job.error
        assert error
        assert error["type"] == "ResultTooLarge"


class SlowStore(Artifacts):
    """A store that waits for permission before each operation."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder), limit=LIMIT, credentials={})
        self.may_go_on = threading.Event()

    def put(self, key: ArtifactKey, data: Any) -> Marker:
        assert self.may_go_on.wait(30)
        return super().put(key, data)

    def read(self, marker: Marker, tenant_id: UUID) -> bytes:
        assert self.may_go_on.wait(30)
        return super().read(marker, tenant_id)


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SlowStore]:
    monkeypatch.setenv("JOBFORGE_ARTIFACTS", str(tmp_path))
    created = SlowStore(tmp_path)
    yield created
    created.may_go_on.set()


async def test_a_job_keeps_its_lease_until_its_result_is_in_a_slow_store(
    harness: WorkerHarness, jobs: ArtifactJobs, slow: SlowStore
) -> None:
    async with _working(harness, slow):
        handle = await jobs.repeat.aenqueue(text="r" * 1000, times=2000)
        await eventually(lambda: harness.state(handle.id) is State.RUNNING)
        first = _expires(harness, handle.id)
        await eventually(lambda: _expires(harness, handle.id) > first)
        slow.may_go_on.set()
        assert len(await handle.aresult(30)) == 2000
    assert len(harness.attempts(handle.id)) == 1


def _expires(harness: WorkerHarness, job_id: UUID) -> datetime:
    found = harness.history(job_id).job.lease_expires_at
    assert found
    return found


async def test_a_job_can_be_canceled_and_released_while_its_payload_is_fetched(
    harness: WorkerHarness, jobs: ArtifactJobs, slow: SlowStore
) -> None:
    async with _working(harness, slow):
        canceled, released = [await jobs.double.aenqueue(text="c" * 300_000) for _ in range(2)]
        await eventually(lambda: harness.state(released.id) is State.RUNNING)
        db.run(harness.conn, calls.cancel_job(canceled.id, tenant_id=TENANT_A))
        await harness.wait_for_state(canceled.id, State.CANCELED)
    assert harness.state(released.id) is State.QUEUED
    assert harness.outcomes(released.id) == [Outcome.RELEASED]


@pytest.mark.usefixtures("jobs")
async def test_a_foreign_artifact_in_a_payload_is_not_read(
    harness: WorkerHarness, artifacts: Artifacts
) -> None:
    foreign = artifacts.put(new_key(TENANT_B, uuid4(), "payload.json"), b'{"text": "of b"}')
    async with _working(harness, artifacts):
        for ref in (foreign.ref, foreign.ref.replace(str(TENANT_B), f"{TENANT_A}/../{TENANT_B}")):
            marker = {"$artifact": {"ref": ref, "bytes": foreign.bytes, "sha256": foreign.sha256}}
            job_id = harness.enqueue("double", marker)
            error = (await harness.wait_for_state(job_id, State.DEAD)).job.error
            assert error
            assert error["type"] == "InvalidPayload"


async def test_all_kinds_of_enqueue_store_large_payloads(
    harness: WorkerHarness, jobs: ArtifactJobs, artifacts: Artifacts, database: Database
) -> None:
    large = [jobs.double.args(text=letter * 300_000) for letter in "ab"]
    small = [jobs.double.args(text="s")] * 1_500
    with psycopg.connect(database.url) as tx:
        handles = [
            jobs.double.using(conn=tx).enqueue(text="c" * 300_000),
            *jobs.double.using(conn=tx).enqueue_many([*small[:10], *large]),
        ]
    async with await psycopg.AsyncConnection.connect(database.url) as atx:
        handles += await jobs.double.using(conn=atx).aenqueue_many([*large, *small[:10]])
    handles += jobs.double.enqueue_many([*small, *large])
    handles += await jobs.double.aenqueue_many([*large, *small])
    handles.append(jobs.double.enqueue(text="d" * 300_000))
    counted = harness.conn.execute(
        "select count(*) as jobs, count(artifact_ref) as named from jobforge.jobs"
    ).fetchone()
    assert counted == {"jobs": len(handles), "named": 10}
    assert len(list(artifacts.store.list_folders())) == 10


async def test_artifacts_of_rolled_back_or_killed_enqueues_are_swept_and_others_stay(
    harness: WorkerHarness, jobs: ArtifactJobs, artifacts: Artifacts, clock: Clock
) -> None:
    kept = jobs.double.enqueue(text="k" * 300_000)
    with harness.app.transaction() as tx:
        jobs.double.using(conn=tx).enqueue(text="r" * 300_000)
        tx.rollback()
    killed = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _KILLED_BEFORE_THE_INSERT, harness.database.url, str(TENANT_A)),
        cwd=Path(__file__).parents[1],
        env={**os.environ, "PYTHONPATH": "."},
    )
    assert await killed.wait() == -signal.SIGKILL
    assert len(list(artifacts.store.list_folders())) == 3

    async with db.Database(harness.database.url_as("worker_login"), size=1) as pool:
        assert (
            await sweep_artifacts(pool.run, artifacts) == 0
        )  # their jobs might still be committed
        clock.travel(days=3)
        assert await sweep_artifacts(pool.run, artifacts) == 2
    ref = harness.history(kept.id).job.artifact_ref
    assert [f"artifact:{folder}/payload.json" for folder in artifacts.store.list_folders()] == [ref]


async def test_a_folder_that_cannot_be_deleted_does_not_keep_others(
    harness: WorkerHarness,
    jobs: ArtifactJobs,
    artifacts: Artifacts,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with harness.app.transaction() as tx:
        for _ in range(3):
            jobs.double.using(conn=tx).enqueue(text="r" * 300_000)
        tx.rollback()
    first, *_ = artifacts.store.list_folders()
    delete = artifacts.store.delete_prefix

    def refuse_first(folder: str) -> bool:
        if folder == first:
            raise errors.ArtifactUnavailable("it is somebody else's")
        return delete(folder)

    monkeypatch.setattr(artifacts.store, "delete_prefix", refuse_first)
    clock.travel(days=3)
    async with db.Database(harness.database.url_as("worker_login"), size=1) as pool:
        assert await sweep_artifacts(pool.run, artifacts) == 2
    assert list(artifacts.store.list_folders()) == [first]


_KILLED_BEFORE_THE_INSERT = """
import os, signal, sys
from integration.artifact_app import define
from jobforge import JobForge, db
jobs = define(JobForge(sys.argv[1], tenant=sys.argv[2]))
db.Pool.run = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
jobs.double.enqueue(text="x" * 300_000)
"""


async def test_artifacts_are_deleted_with_the_history_of_their_job_but_kept_for_dead_jobs(
    harness: WorkerHarness, jobs: ArtifactJobs, artifacts: Artifacts, clock: Clock
) -> None:
    async with _working(harness, None):
        dead = await jobs.double.using(max_attempts=1).aenqueue(text="x" * 300_000)
        await harness.wait_for_state(dead.id, State.DEAD)
    async with _working(harness, artifacts):
        done = await jobs.repeat.aenqueue(text="d" * 600_000, times=2)
        await harness.wait_for_state(done.id)
    retried = db.run(harness.conn, calls.retry_job(done.id, tenant_id=TENANT_A))
    assert retried != done.id
    assert len(list(artifacts.store.list_folders())) == 3
    async with db.Database(harness.database.url_as("worker_login"), size=1) as pool:
        clock.travel(days=20)
        await pool.run(calls.apply_retention())
        assert (
            await sweep_artifacts(pool.run, artifacts) == 1
        )  # its result; a live job refers to its payload
    needed = {harness.history(job_id).job.artifact_ref for job_id in (retried, dead.id)}
    assert {f"artifact:{each}/payload.json" for each in artifacts.store.list_folders()} == needed


async def test_an_erasure_deletes_a_file_that_is_written_during_it(
    harness: WorkerHarness, artifacts: Artifacts
) -> None:
    artifacts.put(new_key(TENANT_A, uuid4(), "payload.json"), b"before the deletion")
    kept = artifacts.put(new_key(TENANT_B, uuid4(), "payload.json"), b"of b")
    operation = db.run(harness.conn, calls.delete_tenant(TENANT_A))
    async with db.Database(harness.database.url_as("worker_login"), size=1) as pool:
        # A job that is being stopped still writes after each of the first two deletions.
        for text in (b"after the first", b"after the second", None, None, None):
            while await pool.run(calls.advance_operations()):
                pass
            if await erase_artifacts(pool.run, artifacts) and text is not None:
                artifacts.put(new_key(TENANT_A, uuid4(), "result.json"), text)
    erased = db.run(harness.conn, calls.get_operation(operation).for_tenant(TENANT_A))
    left = [f"artifact:{folder}/payload.json" for folder in artifacts.store.list_folders()]
    assert (erased.state, left) == ("done", [kept.ref])


async def test_a_file_that_is_written_after_an_erasure_is_swept_on_the_same_day(
    harness: WorkerHarness, artifacts: Artifacts
) -> None:
    db.run(harness.conn, calls.delete_tenant(TENANT_A))
    artifacts.put(new_key(TENANT_A, uuid4(), "result.json"), b"of a job that was being stopped")
    async with db.Database(harness.database.url_as("worker_login"), size=1) as pool:
        assert await sweep_artifacts(pool.run, artifacts) == 1
    assert list(artifacts.store.list_folders()) == []


def test_a_killed_writer_leaves_no_file_under_the_final_name(tmp_path: Path) -> None:
    key = ArtifactKey(TENANT_A, datetime.now(UTC).date(), uuid4(), "report.csv")
    script = _WRITES_AND_WAITS.format(path=key.path)
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == b"half\n"
        writer.kill()
    store = artifacts_in_folder(tmp_path).store
    with pytest.raises(errors.ArtifactNotFound):
        store.size(key.path)
    assert list(store.list_folders()) == []
    (left,) = (tmp_path / ".incoming").iterdir()
    assert left.stat().st_mode & 0o777 == 0o600
    os.utime(left, (0, 0))
    assert list(store.list_folders()) == []
    assert not left.exists()


_WRITES_AND_WAITS = """
import sys
from pathlib import Path
from jobforge.artifacts.folder_store import FolderStore
def pieces():
    yield b"x" * 1_000_000
    print("half", flush=True)
    sys.stdin.read()
    yield b"y"
    while True: pass
FolderStore(Path(sys.argv[1])).put({path!r}, pieces())
"""

_ESCAPES = (
    "../etc/passwd",
    "/etc/passwd",
    "{tenant}/2026-01-01/{folder}/../../x",
    "{tenant}/2026-01-01/{folder}/..",
    "{tenant}/2026-01-01/{folder}/.hidden",
    "{tenant}/2026-01-01/{folder}/a/b",
    "{tenant}/2026-01-01/{folder}/a\x00b",
    "{tenant}/2026-01-01/{folder}/a\n",
    "{tenant}/2026-01-01/{folder}/a\\b",
    "{tenant}/2026-01-01/../x",
    "{tenant}/2026-01-01/{folder}/",
    "",
)


@pytest.mark.parametrize("escape", _ESCAPES)
def test_no_name_escapes_its_store(escape: str, tmp_path: Path, s3: str) -> None:
    path = escape.format(tenant=TENANT_A, folder=uuid4())
    for store in (
        artifacts_in_folder(tmp_path / "a").store,
        artifacts_in_bucket(f"s3://none?endpoint={s3}").store,
    ):
        for use in (store.size, store.delete_prefix):
            with pytest.raises(errors.Invalid):
                use(path)
        with pytest.raises(errors.Invalid):
            store.put(path, b"x")
        with pytest.raises(errors.Invalid):
            next(store.open(path))
    assert not (tmp_path / "a").exists()


def test_a_bucket_stores_and_deletes_like_a_folder(s3: str, tmp_path: Path) -> None:
    for artifacts in (artifacts_in_bucket(new_bucket(s3)), artifacts_in_folder(tmp_path)):
        store, folder = artifacts.store, uuid4()
        key, other = (new_key(TENANT_A, folder, name) for name in ("a.csv", "b.csv"))
        marker = artifacts.put(key, iter([b"1" * 3_000_000, b"2" * 3_000_000]))
        artifacts.put(other, b"")
        artifacts.put(new_key(TENANT_B, uuid4(), "a.csv"), b"b")
        assert artifacts.read(marker, TENANT_A)[2_999_999:3_000_001] == b"12"
        assert (store.size(key.path), store.size(other.path)) == (6_000_000, 0)
        assert len(list(store.list_folders())) == 2
        assert [store.delete_prefix(str(TENANT_A)) for _ in range(2)] == [True, False]
        (left,) = store.list_folders()
        assert left.startswith(str(TENANT_B))
        with pytest.raises(errors.ArtifactNotFound):
            artifacts.read(marker, TENANT_A)
        with pytest.raises(errors.PayloadTooLarge):
            artifacts.put(key, (b"x" * 1_000_000 for _ in range(40)))
        with pytest.raises(errors.ArtifactNotFound):
            store.size(key.path)


def test_a_changed_artifact_is_detected(tmp_path: Path) -> None:
    artifacts = artifacts_in_folder(tmp_path)
    key = new_key(TENANT_A, uuid4(), "payload.json")
    marker = artifacts.put(key, b'{"a": 1}')
    artifacts.store.put(key.path, b'{"a": 2}')
    with pytest.raises(errors.ArtifactNotFound):
        artifacts.read(marker, TENANT_A)


_SHAPES = [
    list(range(10)) * 2_300,
    [1.5] * 16_000,
    [-0.5, 10_000.5, 123_456_789, 1e-7] * 3_000,
    [[]] * 30_000,
    [{"a": 1}] * 9_000,
    [{"": None}] * 9_000,
    ["ü"] * 40_000,
    "ü" * 131_000,
    "x" * 262_000,
    {str(number): number for number in range(9_000)},
    [True, None, ""] * 20_000,
]


@pytest.mark.parametrize("shape", range(len(_SHAPES)))
def test_the_size_estimate_is_never_too_small(shape: int, conn: Connection) -> None:
    document = {"a": _SHAPES[shape]}
    call = calls.enqueue_job(JobRequest("mail", document))
    row = conn.execute("select pg_column_size(%s::jsonb) as size", [call.parameters[1]]).fetchone()
    assert row
    size = row["size"]
    assert size > 100_000
    assert not fits(str(call.parameters[1]), size - 1)
    assert size <= PAYLOAD_LIMIT * 2
