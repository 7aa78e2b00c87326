"""The default artifact store, and processes that do not share a store."""

import json
import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from cluster import Connection, Database, wait_until
from integration.artifact_stores import (
    artifacts_in_bucket,
    artifacts_in_folder,
    new_bucket,
    s3_server,
)
from integration.terminal import Terminal

from jobforge import JobForge, calls, db, errors
from jobforge.embedded import Embedded

STARTED = '"worker.started"'
APP = """
from jobforge import Context, JobForge

jf = JobForge()


@jf.job(retry=3)
def repeat(text: str, times: int) -> str:
    return text * times


@jf.job(isolation="inline", retry=3)
async def repeat_inline(text: str, times: int) -> str:
    return text * times


@jf.job(isolation="inline", retry=3)
async def enqueue_large(size: int) -> None:
    await repeat.aenqueue(text="x" * size, times=1)
"""


@pytest.fixture
def shell(database: Database, conn: Connection, tmp_path: Path) -> Terminal:
    (tmp_path / "app.py").write_text(APP)
    db.run(conn, calls.put_tenant(uuid4(), {"slug": "acme"}))
    return Terminal(tmp_path, JOBFORGE_DATABASE_URL=database.url, JOBFORGE_TENANT="acme")


def _enqueue(shell: Terminal, key: str, **payload: Any) -> str:
    (shell.folder / "payload.json").write_text(json.dumps(payload))
    return shell.read("enqueue", key, "@payload.json")


def _error(shell: Terminal, job_id: str) -> Any:
    """Return the error of a job that is dead after its first attempt."""
    wait_until(lambda: shell.read_json("jobs", "show", job_id)["job"]["state"] == "dead")
    found = shell.read_json("jobs", "show", job_id)
    assert found["job"]["attempt"] == 1
    return found["job"]["error"]


def test_without_a_setting_worker_and_command_write_no_files(
    shell: Terminal,
) -> None:
    with shell.start("worker", "app.py") as worker:
        worker.wait_for(STARTED)
        for key in ("repeat", "repeat_inline"):
            small = _enqueue(shell, key, text="s" * 200_000, times=4)
            assert shell.run("jobs", "wait", small).returncode == 0
            large = _enqueue(shell, key, text="l" * 200_000, times=10)
            error = _error(shell, large)
            assert error["type"] == "ResultTooLarge"
            assert "JOBFORGE_ARTIFACTS" in error["message"]
        error = _error(shell, _enqueue(shell, "enqueue_large", size=300_000))
        assert error["type"] == "NoArtifactStore"
        (shell.folder / "payload.json").write_text(json.dumps({"text": "x" * 300_000, "times": 1}))
        refused = shell.run("enqueue", "repeat", "@payload.json", "--json")
        assert refused.returncode == 2
        reported = json.loads(refused.stderr)["error"]
        assert reported["code"] == "no_artifact_store"
        assert "JOBFORGE_ARTIFACTS" in reported["message"]
        worker.signal(signal.SIGTERM)
        assert worker.wait_for_exit() == 0
    assert not (shell.folder / ".jobforge").exists()


async def _refuse_large(jf: JobForge) -> None:
    @jf.job
    def keep(text: str) -> None: ...

    jf.register()
    large = [keep.args(text="x" * 300_000)]
    many = [keep.args(text="s")] * 1_500 + large
    for jobs in (large, many):
        with pytest.raises(errors.NoArtifactStore, match="JOBFORGE_ARTIFACTS"):
            keep.enqueue_many(jobs)
        with pytest.raises(errors.PayloadTooLarge):
            await keep.aenqueue_many(jobs)
    with jf.transaction() as tx:
        with pytest.raises(errors.NoArtifactStore):
            keep.using(conn=tx).enqueue(text="x" * 300_000)
        keep.using(conn=tx).enqueue(text="s")


@pytest.mark.anyio
async def test_without_a_setting_all_kinds_of_enqueue_refuse_large_payloads(
    database: Database, conn: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("JOBFORGE_ARTIFACTS", raising=False)
    tenant_id = uuid4()
    db.run(conn, calls.put_tenant(tenant_id, {"slug": "acme"}))
    jf = JobForge(database.url, tenant=tenant_id)
    await _refuse_large(jf)
    await jf.aclose()
    assert conn.execute("select from jobforge.jobs").rowcount == 1
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - only the names matter


def test_without_a_setting_a_server_refuses_large_payloads(
    shell: Terminal, conn: Connection
) -> None:
    db.run(conn, calls.put_definition("mail", 1))
    created = shell.read_json("keys", "create", "ci", "--tenant", "acme", "--role", "tenant_admin")
    with shell.start("server", "--port", "0", "--log-format", "json") as server:
        server.wait_for('"server.listening"')
        url = re.findall(r'"url": ?"(http://[^"]+)"', server.output)[0]
        headers = {"authorization": f"Bearer {created['key']}", "x-jobforge-tenant": "acme"}
        with httpx2.Client(headers=headers, trust_env=False) as client:
            jobs = f"{url}/api/v1/jobs"
            large = {"definition": "mail", "payload": {"to": "x" * 300_000}}
            refused = client.post(jobs, json=large)
            assert refused.status_code == 413
            assert refused.json()["code"] == "no_artifact_store"
            small = {"definition": "mail", "payload": {"to": "x" * 200_000}}
            assert client.post(jobs, json=small).status_code == 201
        server.signal(signal.SIGTERM)
        assert server.wait_for_exit() == 0
    assert not (shell.folder / ".jobforge").exists()


def test_dev_keeps_a_folder_next_to_its_database(folder: Path) -> None:
    (folder / "app.py").write_text(APP)
    shell = Terminal(folder, JOBFORGE_TENANT="acme")
    store = folder / ".jobforge" / "artifacts"
    with shell.start("dev", "app.py") as dev:
        dev.wait_for_dev()
        url = shell.read("db", "url")
        # An application that is configured only with the database URL.
        reported = Terminal(folder, JOBFORGE_TENANT="acme", JOBFORGE_DATABASE_URL=url)
        for terminal in (shell, reported):
            job_id = _enqueue(terminal, "repeat", text="x" * 600_000, times=2)
            assert terminal.run("jobs", "wait", job_id).returncode == 0
        assert len(list(store.glob("*/*/*/payload.json"))) == 2
        assert len(list(store.glob("*/*/*/result-*.json"))) == 2
        dev.signal(signal.SIGINT)
        assert dev.wait_for_exit() == 0
    assert Embedded(folder / ".jobforge" / "pg").running() is None


@pytest.fixture
def terminal(database: Database, shell: Terminal) -> Callable[[str], Terminal]:
    """Return the shell with the artifact store of that name."""

    def with_store(name: str) -> Terminal:
        return Terminal(
            shell.folder,
            JOBFORGE_DATABASE_URL=database.url,
            JOBFORGE_TENANT="acme",
            JOBFORGE_ARTIFACTS=str(shell.folder / name),
        )

    return with_store


def test_doctor_and_workers_report_processes_that_do_not_share_a_store(
    shell: Terminal, terminal: Callable[[str], Terminal]
) -> None:
    with terminal("one").start("worker", "app.py") as first:
        first.wait_for(STARTED)
        wait_until(lambda: _stores(shell)["message"] == "All processes share one artifact store")
        assert "artifacts.stores_differ" not in first.output
        with terminal("two").start("worker", "app.py") as second:
            second.wait_for('"artifacts.stores_differ"')
        with terminal("two").start("server", "--port", "0") as third:
            third.wait_for('"artifacts.stores_differ"')
        found = _stores(shell)
        assert found["grade"] == "warning"
        assert f"worker {first.process.pid} on" in found["message"]
        assert f"{shell.folder}/one" in found["message"]
        assert f"worker {second.process.pid} on" in found["message"]
        assert f"server {third.process.pid} on" in found["message"]
        assert f"{shell.folder}/two" in found["message"]
        assert "JOBFORGE_ARTIFACTS" in found["fix"]


def _stores(shell: Terminal) -> dict[str, str]:
    findings = json.loads(shell.run("doctor", "--json").stdout)
    found = [each for each in findings if each["check"] == "artifacts"]
    return found[0] if found else {"message": ""}


@pytest.mark.anyio
async def test_an_app_that_stores_a_payload_records_its_store(
    database: Database, conn: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JOBFORGE_ARTIFACTS", str(tmp_path / "store"))
    tenant_id = uuid4()
    db.run(conn, calls.put_tenant(tenant_id, {"slug": "acme"}))
    jf = JobForge(database.url, tenant=tenant_id)

    @jf.job
    def keep(text: str) -> None: ...

    jf.register()
    keep.enqueue(text="s")
    assert db.run(conn, calls.list_artifact_stores()) == []
    keep.enqueue(text="x" * 300_000)
    await keep.aenqueue(text="x" * 300_000)
    [user] = db.run(conn, calls.list_artifact_stores())
    assert (user.kind, user.pid) == ("app", os.getpid())
    assert user.store_id == artifacts_in_folder(tmp_path / "store").store.identity()
    await jf.aclose()


@pytest.mark.anyio
async def test_doctor_reports_an_app_that_reads_results_from_another_store(
    database: Database,
    shell: Terminal,
    terminal: Callable[[str], Terminal],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    apps, handles = [], []
    for name in ("reader", "async_reader"):
        monkeypatch.setenv("JOBFORGE_ARTIFACTS", str(shell.folder / name))
        jf = JobForge(database.url, tenant="acme")
        repeat = jf.job(key="repeat")(_repeat)
        jf.register()
        handles.append(repeat.enqueue("l" * 200_000, times=10))
        apps.append(jf)
    with terminal("one").start("worker", "app.py"):
        for handle in handles:
            await handle.await_(timeout=60)
    with pytest.raises(errors.ArtifactNotFound):
        handles[0].result()
    found = _stores(shell)
    assert found["grade"] == "warning"
    assert f"app {os.getpid()} on" in found["message"]
    assert f"{shell.folder}/reader" in found["message"]
    assert f"{shell.folder}/one" in found["message"]
    with pytest.raises(errors.ArtifactNotFound):
        await handles[1].aresult()
    assert f"{shell.folder}/async_reader" in _stores(shell)["message"]
    for app in apps:
        await app.aclose()


def _repeat(text: str, times: int) -> str:
    return text * times


def test_erasing_a_job_deletes_its_artifacts(
    shell: Terminal, terminal: Callable[[str], Terminal], conn: Connection
) -> None:
    erasing = terminal("store")
    with erasing.start("worker", "app.py") as worker:
        worker.wait_for(STARTED)
        erased, kept = (_enqueue(erasing, "repeat", text="x" * 300_000, times=4) for _ in range(2))
        for job_id in (erased, kept):
            assert erasing.run("jobs", "wait", job_id).returncode == 0
    files = _files(shell.folder / "store")
    assert len(files) == 4
    erasing.read("jobs", "erase", erased, "--yes")
    left = _files(shell.folder / "store")
    assert len(left) == 2
    assert left < files
    columns = "select payload, result from jobforge.finished_jobs where id = %s"
    found = conn.execute(columns, [erased]).fetchone()
    assert found
    assert (list(found["payload"]), found["result"]) == (["$erased"], None)
    other = conn.execute(columns, [kept]).fetchone()
    assert other
    for marker in other.values():
        ref = marker["$artifact"]["ref"].removeprefix("artifact:")
        assert any(str(path).endswith(ref) for path in left)


def _files(store: Path) -> set[Path]:
    return set(store.glob("*/*/*/*.json"))


def test_processes_that_open_a_folder_at_once_read_one_id(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        found = set(
            threads.map(lambda _: artifacts_in_folder(tmp_path / "a").store.identity(), range(40))
        )
    assert len(found) == 1
    assert artifacts_in_folder(tmp_path / "b").store.identity() not in found
    assert [path.name for path in (tmp_path / "a").iterdir()] == [".store-id"]


def test_a_bucket_has_an_id_too() -> None:
    with s3_server() as address:
        one, two = new_bucket(address), new_bucket(address)
        first = artifacts_in_bucket(one).store.identity()
        assert artifacts_in_bucket(one).store.identity() == first
        assert artifacts_in_bucket(two).store.identity() != first
        assert list(artifacts_in_bucket(one).store.list_folders()) == []
