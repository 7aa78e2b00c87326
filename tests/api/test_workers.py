"""Workers over HTTP: they have the engine's leases; a tenant's worker reaches only its tenant."""

import threading
from typing import Any
from uuid import UUID, uuid4

import httpx2
import pytest
from api.api_server import ApiServer, TenantKeys
from cluster import connect_to, wait_until
from sql.engine import Row, call, claim, enqueue, enqueue_one, new_worker

from jobforge.api.schemas.worker import ClaimedJobView


class HttpWorker:
    """A worker with a key and without a database."""

    def __init__(self, client: httpx2.Client, worker_id: UUID | None = None) -> None:
        self.client = client
        self.worker_id = worker_id or uuid4()

    def send(self, path: str, **body: Any) -> httpx2.Response:
        given = {"worker_id": str(self.worker_id), **body}
        return self.client.post(f"/worker/{path}", json=given, timeout=30)

    def call(self, path: str, **body: Any) -> Any:
        response = self.send(path, **body)
        assert response.is_success, response.text
        return response.json() if response.content else None

    def register(self, **more: Any) -> Any:
        return self.call("register", queues=["default"], slots=4, **more)

    def claim(self, n: int = 1, **more: Any) -> list[Any]:
        return list(self.call("jobs/claim", queues={"default": n}, **more)["items"])


def token(job: Any) -> dict[str, Any]:
    return {
        "tenant_id": str(job["tenant_id"]),
        "job_id": str(job["job_id"]),
        "lease": job["lease"],
    }


def history(api: ApiServer, job: Any) -> Any:
    answer = api.client("super_admin").get(
        f"/jobs/{job['job_id']}", headers={"X-JobForge-Tenant": str(job["tenant_id"])}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture(autouse=True)
def no_jobs(api: ApiServer) -> None:
    """Remove all jobs: the tests share a database, and a claim takes every job that it finds."""
    api.conn.execute("delete from jobforge.jobs")


@pytest.fixture
def worker(api: ApiServer) -> HttpWorker:
    created = HttpWorker(api.client("worker"))
    created.register()
    return created


@pytest.fixture
def roaming(api: ApiServer) -> HttpWorker:
    """Return a worker of the installation, which serves all tenants."""
    key = api.create_key("worker", None)
    created = HttpWorker(api.client_with_headers({"authorization": f"Bearer {key}"}))
    created.register()
    return created


def test_a_job_is_claimed_extended_and_settled_without_a_database(
    api: ApiServer, worker: HttpWorker
) -> None:
    payload = {"n": 2**80, "x": 0.1, "deep": [{"a": [None, True, "é"]}]}
    job_id = enqueue_one(
        api.conn, api.a.tenant_id, definition="plain", payload=payload, tags=["t"], priority=3
    )
    [job] = worker.claim(lease_s=60)
    assert job.keys() == ClaimedJobView.model_fields.keys()
    assert UUID(job["job_id"]) == job_id
    assert (job["payload"], job["tags"], job["attempt"]) == (payload, ["t"], 1)
    assert (job["definition"], job["version"], job["attempt"], job["timeout_s"]) == (
        *("plain", 1, 1),
        3600,
    )
    output = {"kind": "log", "data": {"message": "hello"}}
    assert worker.call("jobs/notes", notes=[token(job) | output])["items"][0]["status"] == "ok"
    beats = worker.call("jobs/heartbeat", jobs=[token(job)])
    assert (beats["command"], beats["items"][0]["status"]) == ("ok", "ok")
    child = worker.call("jobs/enqueue", job=token(job), jobs=[{"definition": "plain"}])
    assert [created["status"] for created in child["items"]] == ["created"]
    outcome = token(job) | {"outcome": "succeeded", "result": {"done": 2**60}}
    for state in ("succeeded", None):  # a repeated report has the same result
        [settled] = worker.call("jobs/complete", outcomes=[outcome])["items"]
        assert (settled["status"], settled["state"]) == ("ok", state)
    reported = history(api, job)
    assert reported["job"]["state"] == "succeeded"
    assert reported["attempts"][0]["worker_id"] == str(worker.worker_id)
    [row] = api.conn.execute(
        "select result::text from jobforge.finished_jobs where id = %s", [job_id]
    ).fetchall()
    assert str(2**60) in row["result"]
    worker.call("unregister")


def test_jobs_are_settled_separately_too(api: ApiServer, worker: HttpWorker) -> None:
    enqueue(api.conn, api.a.tenant_id, 3, definition="plain")
    first, second, third = worker.claim(3)
    path = f"jobs/{first['job_id']}"
    assert worker.call(f"{path}/heartbeat", lease=first["lease"]) == {"status": "ok"}
    assert worker.call(f"{path}/complete", lease=first["lease"], result=1) == {"state": "succeeded"}
    late = worker.send(f"{path}/heartbeat", lease=first["lease"])
    assert (late.status_code, late.json()["code"]) == (409, "lease_lost")
    error = {"type": "Oops", "message": "x"}
    failing = f"jobs/{second['job_id']}/fail"
    assert worker.call(failing, lease=second["lease"], error=error) == {"state": "scheduled"}
    [released] = worker.call("release", jobs=[token(third)])["items"]
    assert (released["status"], released["state"]) == ("ok", "queued")


def test_a_heartbeat_waits_for_a_locked_job(api: ApiServer, worker: HttpWorker) -> None:
    enqueue(api.conn, api.a.tenant_id, 1, definition="plain")
    [job] = worker.claim(1)
    path = f"jobs/{job['job_id']}/heartbeat"
    assert worker.call(path, lease=job["lease"]) == {"status": "ok"}
    with connect_to(api.database.url, autocommit=False) as holder:
        holder.execute("select from jobforge.heartbeats for update")
        assert worker.call(path, lease=job["lease"]) == {"status": "held"}
        [beat] = worker.call("jobs/heartbeat", jobs=[token(job)])["items"]
        assert beat["status"] == "held"
        holder.rollback()
    assert worker.call(path, lease=job["lease"]) == {"status": "ok"}


def test_a_claim_waits_for_a_job(api: ApiServer, worker: HttpWorker) -> None:
    found: list[Any] = []
    waiting = threading.Thread(target=lambda: found.extend(worker.claim(wait_s=20)))
    waiting.start()
    wait_until(lambda: _listens(api))
    job_id = enqueue_one(api.conn, api.a.tenant_id, definition="plain")
    waiting.join(timeout=30)
    assert [job["job_id"] for job in found] == [str(job_id)]
    assert worker.claim() == []


@pytest.mark.attack("payloads")
@pytest.mark.parametrize("scope", ["worker", "roaming"])
def test_a_payload_that_cannot_be_sent_fails_only_its_own_job(
    api: ApiServer, scope: str, request: pytest.FixtureRequest
) -> None:
    remote: HttpWorker = request.getfixturevalue(scope)
    bad, good = enqueue(api.conn, api.a.tenant_id, 2, definition="plain")
    with api.conn.transaction():
        api.conn.execute("set local session_replication_role = replica")  # as a restore does
        numbers = "[" + ",".join(["1e131071"] * 9000) + "]"
        api.conn.execute(
            "update jobforge.jobs set payload = jsonb_build_object('x', %s::jsonb) where id = %s",
            [numbers, bad],
        )
    assert [job["job_id"] for job in remote.claim(2)] == [str(good)]
    reported = history(api, {"job_id": bad, "tenant_id": api.a.tenant_id})["job"]
    assert (reported["state"], reported["error"]["type"]) == ("dead", "UnreadablePayload")


def test_a_worker_of_the_installation_serves_all_tenants(
    api: ApiServer, roaming: HttpWorker
) -> None:
    for party in (api.a, api.b):
        enqueue(api.conn, party.tenant_id, definition="plain")
    jobs = roaming.claim(2)
    assert {job["tenant_id"] for job in jobs} == {str(api.a.tenant_id), str(api.b.tenant_id)}
    settled = roaming.call(
        "jobs/complete", outcomes=[token(job) | {"outcome": "succeeded"} for job in jobs]
    )
    assert [each["status"] for each in settled["items"]] == ["ok", "ok"]
    new = {"key": f"made_{uuid4().hex[:8]}", "version": 1, "settings": {"timeout_s": 9}}
    [created] = _put(roaming, new)
    assert created["status"] == "registered"
    assert roaming.client.post("/worker/partitions").json().keys() == {"created"}


def test_a_tenants_worker_can_do_nothing_with_another_tenants_jobs(
    api: ApiServer, worker: HttpWorker
) -> None:
    foreign = HttpWorker(api.client("worker", api.b))
    foreign.register()
    enqueue(api.conn, api.b.tenant_id, 3, definition="plain")
    [job] = foreign.claim()
    _expire(api, api.b)
    before = _rows(api, api.b)
    # The same requests from tenant A's worker, with its own worker ID and with tenant B's.
    impostor = HttpWorker(worker.client, foreign.worker_id)
    answers = [worker.send("jobs/claim", queues={"default": 9})]
    tokens: list[dict[str, Any]] = [token(job), token(job) | {"tenant_id": str(api.a.tenant_id)}]
    for who in (worker, impostor):
        for each in tokens:
            answers += [
                who.send("jobs/heartbeat", jobs=[each]),
                who.send("jobs/complete", outcomes=[each | {"outcome": "succeeded"}]),
                who.send("jobs/notes", notes=[each | {"kind": "log", "data": {}}]),
                who.send("release", jobs=[each]),
                who.send("jobs/enqueue", job=each, jobs=[{"definition": "plain"}]),
            ]
            one = {"lease": each["lease"], "tenant_id": each["tenant_id"]}
            for verb in ("heartbeat", "complete", "fail"):
                answers.append(who.send(f"jobs/{job['job_id']}/{verb}", **one))
    answers += [
        impostor.send("register", queues=["default"], slots=1),
        impostor.send("jobs/claim", queues={"default": 1}),
        impostor.send("unregister"),
        worker.client.post("/worker/jobs/reap"),
    ]
    for answer in answers:
        body = answer.json()
        assert answer.status_code in {200, 404, 409}, answer.text
        assert str(api.b.tenant_id) not in answer.text
        statuses = {item.get("status") for item in body.get("items", [])}
        assert statuses <= {"lost"}, answer.text
    assert _rows(api, api.b) == before
    assert foreign.call("jobs/heartbeat", jobs=[token(job)])["items"][0]["status"] == "ok"


def test_a_worker_belongs_to_the_key_that_registered_it(api: ApiServer, worker: HttpWorker) -> None:
    key = api.create_key("worker", api.a.tenant_id)
    other = HttpWorker(
        api.client_with_headers({"authorization": f"Bearer {key}"}), worker.worker_id
    )
    nobodys = HttpWorker(other.client)
    for stranger in (other, nobodys):
        assert stranger.send("jobs/claim", queues={"default": 1}).status_code == 404
        assert stranger.send("unregister").status_code == 404
        assert stranger.call("jobs/heartbeat", jobs=[]) == {"command": "unknown", "items": []}
    assert other.send("register", queues=["default"], slots=1).status_code == 404
    assert worker.call("jobs/heartbeat", jobs=[])["command"] == "ok"


def test_a_tenants_worker_registers_no_definitions(api: ApiServer, worker: HttpWorker) -> None:
    known = {"key": "plain", "version": 1, "settings": {"timeout_s": 1}}
    assert _put(worker, known) == [{"key": "plain", "version": 1, "status": "known"}]
    refused = worker.client.post(
        "/worker/definitions", json={"definitions": [{"key": "new", "version": 1}]}
    )
    assert (refused.status_code, refused.json()["code"]) == (403, "denied")
    [row] = api.conn.execute(
        "select timeout_s from jobforge.definitions where key = 'plain'"
    ).fetchall()
    assert row["timeout_s"] == 3600


def test_a_worker_reaps_the_jobs_of_its_tenant(api: ApiServer, worker: HttpWorker) -> None:
    for party in (api.a, api.b):
        enqueue(api.conn, party.tenant_id, definition="plain")
        claim(api.conn, new_worker(), tenants=[party.tenant_id])
        _expire(api, party)
    reaped = worker.client.post("/worker/jobs/reap").json()["items"]
    assert [job["tenant_id"] for job in reaped] == [str(api.a.tenant_id)]


def test_a_worker_receives_the_drain_command(api: ApiServer, worker: HttpWorker) -> None:
    call(api.conn, "drain_worker", worker_id=worker.worker_id)
    assert worker.call("jobs/heartbeat", jobs=[])["command"] == "drain"


def _put(worker: HttpWorker, *definitions: dict[str, Any]) -> list[Any]:
    answer = worker.client.post("/worker/definitions", json={"definitions": list(definitions)})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["items"])


def _listens(api: ApiServer) -> bool:
    query = "select from pg_stat_activity where query ilike 'listen %jobforge:default%'"
    return bool(api.conn.execute(query).rowcount)


def _expire(api: ApiServer, party: TenantKeys) -> None:
    api.conn.execute(
        "update jobforge.jobs set lease_expires_at = now() - interval '1 s' "
        "where tenant_id = %s and state = 'running'",
        [party.tenant_id],
    )


def _rows(api: ApiServer, party: TenantKeys) -> list[Row]:
    """Return all jobs of a tenant and all their events, byte by byte."""
    query = (
        "select 'job', j.xmin::text, to_jsonb(j) from jobforge.jobs as j where tenant_id = %(id)s "
        "union all select 'note', e.xmin::text, to_jsonb(e) from jobforge.job_events as e "
        "where tenant_id = %(id)s order by 3"
    )
    return api.conn.execute(query, {"id": party.tenant_id}).fetchall()


def test_steps_are_stored_under_a_lease_and_returned_by_the_next_claim(api: ApiServer) -> None:
    enqueue(api.conn, api.a.tenant_id, n=1, definition="plain")
    remote = HttpWorker(api.client("worker"))
    remote.register()
    [job] = remote.claim()
    assert job["steps"] is None
    step = {"name": "send", "index": 0, "result": {"n": 1}}
    [saved] = remote.call("jobs/steps", steps=[token(job) | step])["items"]
    assert saved["status"] == "ok"
    [late] = remote.call("jobs/steps", steps=[token(job) | step | {"lease": 1}])["items"]
    assert late["status"] == "lost"
    children = {"name": "plain", "jobs": [{"definition": "plain"}]}
    created = remote.call("jobs/children", job=token(job), **children)["items"]
    assert remote.call("jobs/children", job=token(job), **children)["items"] == created
    [release] = remote.call("release", jobs=[token(job)])["items"]
    assert release["status"] == "ok"
    [again] = [each for each in remote.claim(2) if each["job_id"] == job["job_id"]]
    assert [(each["kind"], each["name"]) for each in again["steps"]] == [
        ("step", "send"),
        ("enqueue", "plain"),
    ]
    wait = {"kind": "sleep", "name": "sleep", "index": 0}
    outcome = token(again) | {"outcome": "snoozed", "retry_in_s": 60, "wait": wait}
    [settled] = remote.call("jobs/complete", outcomes=[outcome])["items"]
    assert settled["state"] == "scheduled"
    reasons = api.client("viewer").get(f"/jobs/{job['job_id']}/explain").json()["items"]
    assert reasons[0]["code"] == "sleeping"


def test_a_tenants_worker_cannot_store_or_create_anything_for_another_tenant(
    api: ApiServer,
) -> None:
    enqueue(api.conn, api.b.tenant_id, n=1, definition="plain")
    worker = new_worker()
    [job] = claim(api.conn, worker)
    remote = HttpWorker(api.client("worker"), worker)
    remote.register()
    step = {"name": "send", "index": 0, "result": 1}
    [saved] = remote.call("jobs/steps", steps=[token(job) | step])["items"]
    assert saved["status"] == "lost"
    children = {"name": "plain", "jobs": [{"definition": "plain"}]}
    refused = remote.send("jobs/children", job=token(job), **children)
    node = {"name": "more", "definition": "plain"}
    for answer in (
        refused,
        remote.send("jobs/parents", job=token(job)),
        remote.send("jobs/nodes", job=token(job), nodes=[node]),
    ):
        assert (answer.status_code, answer.json()["code"]) == (409, "lease_lost"), answer.text
    assert api.conn.execute("select from jobforge.jobs").rowcount == 1
