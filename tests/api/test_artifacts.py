"""Large payloads over HTTP, and the download of artifacts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
from api.api_server import SECRET_KEY, ApiServer, open_api_server, serve_in_thread
from cluster import fresh_database, wait_until
from integration.artifact_stores import (
    CREDENTIALS,
    artifacts_in_bucket,
    artifacts_in_folder,
    new_bucket,
    s3_server,
)
from integration.terminal import InProcessTerminal

from jobforge import JobForge, calls, db, errors
from jobforge.artifacts import Artifacts
from jobforge.artifacts.keys import new_key
from jobforge.client.client import Client
from jobforge.config import Config
from jobforge.embedded import PostgresServer
from jobforge.sdk.engine_client import complete
from jobforge.types.jobs import JobRequest, Outcome, OutcomeReport


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Artifacts:
    return artifacts_in_folder(_folder(tmp_path_factory))


@pytest.fixture(scope="module")
def api(server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder = str(_folder(tmp_path_factory))
    with fresh_database(server) as database, open_api_server(database, artifacts=folder) as opened:
        yield opened


def _folder(factory: pytest.TempPathFactory) -> Path:
    return factory.getbasetemp() / "artifacts-of-the-api"


def _create_succeeded_job(api: ApiServer, result: Any, **more: Any) -> UUID:
    """Return a succeeded job of tenant A."""
    admin, worker = api.client("tenant_admin"), uuid4()
    created = admin.post("/jobs", json={"definition": "plain", "queue": "own"}).json()["id"]
    (job,) = db.run(api.conn, calls.claim_jobs(worker, {"own": 1}))
    report = OutcomeReport(*job.token, Outcome.SUCCEEDED, job.started_at, result, **more)
    db.run(api.conn, calls.complete_jobs(worker, [report]))
    return UUID(created)


def test_the_server_stores_a_payload_too_large_for_a_row(
    api: ApiServer, artifacts: Artifacts
) -> None:
    admin = api.client("tenant_admin")
    payload = {"to": "ä" * 200_000}
    wish = {"definition": "mail", "payload": payload}
    small = {"definition": "mail", "payload": {"to": "ada"}}
    created = [
        admin.post("/jobs", json=wish),
        admin.post("/jobs", json=wish, headers={"idempotency-key": "large"}),
        admin.post("/jobs/batch", json={"jobs": [small, wish, small]}),
    ]
    assert [answer.status_code for answer in created] == [201] * 3
    ids = [created[0].json()["id"], created[1].json()["id"], created[2].json()["items"][1]["id"]]
    refs = []
    for job_id in ids:
        job = admin.get(f"/jobs/{job_id}").json()["job"]
        refs.append(job["artifact_ref"])
        assert refs[-1] == job["payload"]["$artifact"]["ref"]
        assert admin.get(f"/jobs/{job_id}/artifact").json() == payload
        assert admin.get(f"/jobs/{job_id}/artifact?of=payload").json() == payload
    plain = admin.get(f"/jobs/{created[2].json()['items'][0]['id']}").json()["job"]
    assert (plain["payload"], plain["artifact_ref"]) == ({"to": "ada"}, None)
    assert artifacts.store.size(refs[-1].removeprefix("artifact:")) > 400_000


def test_an_invalid_payload_is_refused_and_not_stored(api: ApiServer, artifacts: Artifacts) -> None:
    before = list(artifacts.store.list_folders())
    wish = {"definition": "mail", "payload": {"to": "a", "unknown": "x" * 300_000}}
    assert api.client("tenant_admin").post("/jobs", json=wish).status_code == 422
    assert list(artifacts.store.list_folders()) == before


def test_a_browser_saves_an_artifact_and_shows_nothing_of_it(
    api: ApiServer, artifacts: Artifacts
) -> None:
    page = b"<script>alert(1)</script>"
    marker = artifacts.put(new_key(api.a.tenant_id, uuid4(), "report.html"), page)
    job_id = _create_succeeded_job(api, {"artifact": marker.ref}, artifact_ref=marker.ref)
    answer = api.client("tenant_admin").get(f"/jobs/{job_id}/artifact")
    assert (answer.status_code, answer.content) == (200, page)
    headers = answer.headers
    assert headers["content-disposition"] == f'attachment; filename="{job_id}-report.html"'
    assert headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in headers["content-security-policy"]
    assert headers["content-length"] == str(len(page))
    assert headers["cache-control"] == "private, no-store"


def test_only_the_tenant_itself_reads_an_artifact_and_no_viewer(
    api: ApiServer, artifacts: Artifacts
) -> None:
    marker = artifacts.put(new_key(api.a.tenant_id, uuid4(), "report.csv"), b"a")
    job_id = _create_succeeded_job(api, None, artifact_ref=marker.ref)
    path = f"/jobs/{job_id}/artifact"
    assert api.client("tenant_admin").get(path).status_code == 200
    assert api.client("viewer").get(path).status_code == 403
    assert api.client("tenant_admin", api.b).get(path).status_code == 404


def test_an_artifact_that_is_missing_or_foreign_is_not_found(
    api: ApiServer, artifacts: Artifacts
) -> None:
    foreign = artifacts.put(new_key(api.b.tenant_id, uuid4(), "report.csv"), b"of b")
    gone = new_key(api.a.tenant_id, uuid4(), "report.csv").ref
    escape = f"artifact:{api.a.tenant_id}/2026-01-01/{uuid4()}/../{foreign.ref}"
    for ref in (None, foreign.ref, gone, escape, "file:///etc/passwd", "artifact:"):
        for result in (None, {"artifact": ref}):
            job_id = _create_succeeded_job(api, result, artifact_ref=ref)
            answer = api.client("tenant_admin").get(f"/jobs/{job_id}/artifact")
            assert (answer.status_code, answer.json()["code"]) == (404, "artifact_not_found")


def test_the_result_of_a_job_is_the_same_over_http_as_from_a_database(
    api: ApiServer, artifacts: Artifacts
) -> None:
    app = JobForge(server=api.url, key=api.a.keys["tenant_admin"])

    @app.job()
    def plain() -> list[str]:
        return []

    result = b'["' + b"x" * 2_000_000 + b'"]'
    marker = artifacts.put(new_key(api.a.tenant_id, uuid4(), "result-1.json"), result)
    job_id = _create_succeeded_job(api, marker.to_json(), artifact_ref=marker.ref)
    job = app.client.run(calls.get_job(job_id, tenant_id=api.a.tenant_id)).job
    assert complete(app.client.get_result(app.client.blocking, job)) == ["x" * 2_000_000]
    app.close()


def test_the_command_line_stores_and_saves_with_a_database_and_with_a_server(
    api: ApiServer, tmp_path: Path
) -> None:
    (tmp_path / "payload.json").write_text(json.dumps({"to": "x" * 400_000}))
    folder = {"JOBFORGE_ARTIFACTS": str(tmp_path.parent / "artifacts-of-the-api")}
    direct = InProcessTerminal(
        tmp_path,
        JOBFORGE_DATABASE_URL=api.database.url_as("admin_login"),
        JOBFORGE_TENANT="tenant-a",
        **folder,
    )
    remote = InProcessTerminal(
        tmp_path, JOBFORGE_SERVER=api.url, JOBFORGE_KEY=api.a.keys["tenant_admin"]
    )
    for shell in (direct, remote):
        job_id = shell.read("enqueue", "mail", "@payload.json")
        assert f"artifact:{api.a.tenant_id}/" in shell.read("jobs", "show", job_id)
        for other in (direct, remote):
            other.read("jobs", "artifact", job_id, "-o", "saved.json")
            saved = tmp_path / "saved.json"
            assert json.loads(saved.read_text()) == {"to": "x" * 400_000}
            saved.unlink()
            missing = other.run("jobs", "artifact", job_id, "--of", "result", "-o", "saved.json")
            assert (missing.returncode, "Artifact not found" in missing.stderr) == (3, True)
            assert sorted(path.name for path in tmp_path.iterdir()) == ["payload.json"]


def test_clients_read_an_artifact_in_pieces(api: ApiServer, artifacts: Artifacts) -> None:
    marker = artifacts.put(new_key(api.a.tenant_id, uuid4(), "report.csv"), b"a,b\r\n" * 100_000)
    job_id = _create_succeeded_job(api, None, artifact_ref=marker.ref)
    with Client(api.url, api.a.keys["tenant_admin"]) as client:
        with client.open_artifact(job_id) as pieces:
            assert sum(map(len, pieces)) == marker.bytes
        with pytest.raises(errors.NotFound), client.open_artifact(uuid4()):
            pass


def test_deleting_a_tenant_deletes_its_artifacts(api: ApiServer, artifacts: Artifacts) -> None:
    tenant_id = uuid4()
    keys = [new_key(each, uuid4(), "a.csv") for each in (tenant_id, api.a.tenant_id)]
    for key in keys:
        artifacts.put(key, b"x")
    operator = api.client("super_admin")
    begun = operator.delete(f"/tenants/{tenant_id}")
    assert begun.status_code == 202
    acting = {"x-jobforge-tenant": str(tenant_id)}
    path = f"/operations/{begun.json()['id']}"
    wait_until(lambda: operator.get(path, headers=acting).json()["state"] == "done")
    with pytest.raises(errors.ArtifactNotFound):
        artifacts.store.size(keys[0].path)
    assert artifacts.store.size(keys[1].path) == 1


def test_erasing_a_job_deletes_its_artifacts(api: ApiServer, artifacts: Artifacts) -> None:
    tenant_id, folder = api.a.tenant_id, uuid4()
    marker = artifacts.put(new_key(tenant_id, folder, "a.csv"), b"secret")
    job_id = _create_succeeded_job(api, None, artifact_ref=marker.ref)
    admin = api.client("tenant_admin")
    assert api.client("viewer").post(f"/jobs/{job_id}/erase").status_code == 403
    assert admin.post(f"/jobs/{job_id}/erase").status_code == 204
    with pytest.raises(errors.ArtifactNotFound):
        artifacts.store.size(marker.ref.removeprefix("artifact:"))
    shown = admin.get(f"/jobs/{job_id}").json()["job"]
    assert (shown["state"], list(shown["payload"])) == ("succeeded", ["$erased"])
    with Client(api.url, api.a.keys["tenant_admin"]) as client:
        assert client.erase_job(job_id) == []  # repeating the deletion is not an error
        with pytest.raises(errors.Conflict):
            client.retry_job(job_id)
        waiting = client.enqueue_job(JobRequest("plain", {})).job_id
        with pytest.raises(errors.Conflict, match="cancel the job first"):
            client.erase_job(waiting)


def test_a_download_redirects_to_the_bucket_when_links_are_on(api: ApiServer) -> None:
    with s3_server() as address:
        url = new_bucket(address)
        marker = artifacts_in_bucket(url).put(
            new_key(api.a.tenant_id, uuid4(), "report.csv"), b"a,b"
        )
        job_id = _create_succeeded_job(api, None, artifact_ref=marker.ref)
        config = Config(
            database_url=api.database.url_as("server_login"),
            artifacts=url,
            artifacts_access_key=CREDENTIALS["access_key_id"],
            artifacts_secret_key=CREDENTIALS["secret_access_key"],
            artifact_links=True,
            access_log=False,
            secret_key=SECRET_KEY,
        )
        headers = {"authorization": f"Bearer {api.a.keys['tenant_admin']}"}
        with (
            serve_in_thread(config) as server,
            httpx2.Client(headers=headers, trust_env=False) as client,
        ):
            path = f"{server}/api/v1/jobs/{job_id}/artifact"
            linked = client.get(path)
            assert linked.status_code == 307
            location = linked.headers["location"]
            assert location.startswith(address)
            assert httpx2.get(location, trust_env=False).content == b"a,b"
            assert client.get(path, params={"proxied": "true"}).content == b"a,b"
