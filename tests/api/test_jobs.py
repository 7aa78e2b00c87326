"""Jobs over HTTP: the engine's operations with the right status and without secrets."""

import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from api.api_server import ApiServer
from api.tenant_objects import create_tenant_objects
from cluster import wait_until
from fastapi import FastAPI
from starlette.testclient import TestClient

from jobforge.api import create_app
from jobforge.config import Config


def test_a_job_is_created_read_changed_and_canceled(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    created = admin.post("/jobs", json={"definition": "mail", "payload": {"to": "ada"}})
    assert (created.status_code, created.json()["status"]) == (201, "created")
    path = f"/jobs/{created.json()['id']}"
    job = admin.get(path).json()["job"]
    assert (job["state"], job["payload"], job["queue"]) == ("queued", {"to": "ada"}, "mail")
    assert job["created_by"].startswith("key:")
    assert job["created_at"].endswith("Z")

    assert admin.patch(path, json={"priority": 7}).json() == {"state": "queued"}
    wrong = admin.patch(path, json={"payload": {"to": 1}})
    assert wrong.json()["code"] == "invalid_payload"
    moved = admin.post(f"{path}/reschedule", json={"run_at": "2030-01-01T00:00:00+02:00"})
    assert moved.status_code == 422  # more than a year ahead
    explained = admin.get(f"{path}/explain").json()["items"]
    assert explained[0]["code"]
    assert admin.get(f"{path}/attempts").json() == {"items": []}

    canceled = admin.post(f"{path}/cancel", json={"reason": "not needed"})
    assert (canceled.status_code, canceled.json()) == (202, {"state": "canceled"})
    kinds = [event["kind"] for event in admin.get(f"{path}/events").json()["items"]]
    assert "canceled" in kinds
    assert admin.post(f"{path}/cancel").status_code == 202  # canceling it twice is not an error
    refused = admin.post(f"{path}/reschedule", json={"run_at": None})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    again = admin.post(f"{path}/retry", json={"payload": {"to": "bob"}})
    assert again.status_code == 202
    copy = admin.get(f"/jobs/{again.json()['id']}").json()["job"]
    assert (copy["retry_of"], copy["payload"]) == (job["id"], {"to": "bob"})


def test_a_mounted_application_creates_jobs(api: ApiServer) -> None:
    inner = create_app(Config(database_url=api.database.url_as("server_login"), access_log=False))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with inner.router.lifespan_context(inner):
            yield

    outer = FastAPI(lifespan=lifespan)
    outer.mount("/background", inner)
    headers = {"authorization": f"Bearer {api.a.keys['tenant_admin']}"}
    with TestClient(outer, headers=headers) as client:
        for body, status in (
            ({"definition": "plain"}, 201),
            ({"definition": "plain", "x": 1}, 422),
        ):
            answer = client.post("/background/api/v1/jobs", json=body)
            assert answer.status_code == status, answer.text


def test_pages_cover_the_whole_list(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    tag = {"tag": uuid4().hex}
    jobs = [{"definition": "plain", "tags": [tag["tag"]]} for _ in range(5)]
    created = admin.post("/jobs/batch", json={"jobs": jobs})
    assert created.status_code == 201
    ids = [job["id"] for job in created.json()["items"]]
    found, cursor = [], None
    for _ in range(3):
        params: dict[str, Any] = {**tag, "limit": 2, **({"cursor": cursor} if cursor else {})}
        answer = admin.get("/jobs", params=params).json()
        found += [job["id"] for job in answer["items"]]
        cursor = answer["next"]
    assert found == ids[::-1]
    assert cursor is None
    states = {"state": ["queued", "running"], **tag}
    assert len(admin.get("/jobs", params=states).json()["items"]) == 5
    assert admin.get("/jobs", params={"state": "dead", **tag}).json()["items"] == []


def test_an_existing_idempotency_key_returns_the_existing_job(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    job = {"definition": "plain", "key": uuid4().hex}
    first, second = (admin.post("/jobs", json=job) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 200)
    assert second.json() == {"id": first.json()["id"], "status": "existing"}
    refused = admin.post("/jobs", json={**job, "on_conflict": "raise"})
    assert (refused.status_code, refused.json()["code"]) == (409, "duplicate_key")


def test_a_request_repeated_with_its_key_acts_once(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    key = {"idempotency-key": uuid4().hex}
    job = {"definition": "plain", "tags": [key["idempotency-key"]]}

    def post(_: int) -> tuple[int, str]:
        answer = admin.post("/jobs", json=job, headers=key)
        return answer.status_code, answer.text

    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(post, range(8)))
    assert len(answers) == 1
    assert answers.pop()[0] == 201
    again = admin.post("/jobs", json=job, headers=key)
    assert again.headers["idempotent-replayed"] == "true"
    assert len(admin.get("/jobs", params={"tag": job["tags"][0]}).json()["items"]) == 1

    other = admin.post("/jobs", json={**job, "priority": 1}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    batch = admin.post("/jobs/batch", json={"jobs": [job]}, headers=key)
    assert batch.status_code == 409
    theirs = api.client("tenant_admin", api.b).post("/jobs", json=job, headers=key)
    assert theirs.status_code == 201
    assert "idempotent-replayed" not in theirs.headers


def test_a_tenant_sees_the_limits_that_operators_have_set(api: ApiServer) -> None:
    operator, viewer = api.client("super_admin"), api.client("viewer")
    limits = {"max_running": 7, "weight": 3}
    assert operator.patch(f"/tenants/{api.a.tenant_id}", json=limits).status_code == 204
    own = viewer.get("/session/tenant").json()
    assert own["id"] == str(api.a.tenant_id)
    assert {name: own[name] for name in limits} == limits
    assert operator.get("/session/tenant").status_code == 400, "of which tenant?"
    unset = {"max_running": None, "weight": 1}
    assert operator.patch(f"/tenants/{api.a.tenant_id}", json=unset).status_code == 204


def test_a_full_queue_is_refused_with_its_depth(api: ApiServer) -> None:
    operator = api.client("super_admin")
    tenant = operator.post("/tenants", json={"slug": "full", "max_pending": 2}).json()["id"]
    acting = {"x-jobforge-tenant": "full"}
    job = {"definition": "plain"}
    for _ in range(2):
        assert operator.post("/jobs", json=job, headers=acting).status_code == 201
    refused = operator.post("/jobs", json=job, headers=acting)
    assert (refused.status_code, refused.json()["code"]) == (429, "tenant_queue_full")
    assert refused.json()["facts"] == {"depth": 2, "limit": 2}
    assert refused.headers["retry-after"] == "1"
    assert operator.delete(f"/tenants/{tenant}").status_code == 202
    gone = operator.post("/jobs", json=job, headers={"x-jobforge-tenant": tenant})
    assert (gone.status_code, gone.json()["code"]) == (410, "tenant_erased")


def test_responses_contain_no_secrets(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    secret = "hunter2-" + uuid4().hex
    body = {"definition": "mail", "payload": {"to": "a", "password": secret}}
    path = f"/jobs/{admin.post('/jobs', json=body).json()['id']}"
    shown = admin.get(path)
    assert secret not in shown.text
    assert shown.json()["job"]["payload"] == {"to": "a", "password": "[redacted]"}
    admin.post(f"{path}/cancel", json={"reason": f"password={secret}"})
    for where in (path, f"{path}/events", "/jobs", "/audit"):
        assert secret not in admin.get(where).text, where


def test_dead_jobs_are_grouped_annotated_and_redriven(api: ApiServer) -> None:
    foreign = create_tenant_objects(api)
    admin = api.client("tenant_admin", api.b)
    fingerprint = foreign.path_values["fingerprint"][0]
    (group,) = admin.get("/failures").json()["items"]
    assert (group["jobs"], group["note"]) == (1, "known to B")
    which = {"kind": "redrive", "filter": {"fingerprint": fingerprint}}
    assert admin.post("/operations/count", json=which).json() == {"jobs": 1}
    started = admin.post(f"/failures/{fingerprint}/redrive", json={"canary": 1, "rate": 100})
    assert started.status_code == 202, started.text
    operation = admin.get(f"/operations/{started.json()['id']}").json()
    assert (operation["kind"], operation["matched"]) == ("redrive", 1)
    stopped = admin.post(f"/operations/{operation['id']}/cancel")
    assert stopped.status_code in {200, 409}
    assert operation["id"] in admin.get("/operations").text
    assert admin.post("/failures/0123456789abcdef/discard").status_code == 404


def test_the_server_carries_out_an_operation(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    tag = uuid4().hex
    jobs = [{"definition": "plain", "tags": [tag], "delay_s": 3600} for _ in range(5)]
    admin.post("/jobs/batch", json={"jobs": jobs})
    wish = {"kind": "cancel", "filter": {"tag": tag}, "reason": "a mistake"}
    path = f"/operations/{admin.post('/operations', json=wish).json()['id']}"
    wait_until(lambda: admin.get(path).json()["state"] == "done")
    operation = admin.get(path).json()
    assert (operation["matched"], operation["done"], operation["skipped"]) == (5, 5, 0)
    left = admin.get("/jobs", params={"tag": tag}).json()["items"]
    assert {job["state"] for job in left} == {"canceled"}
    assert admin.post(f"{path}/cancel").status_code == 409


def test_operators_read_and_control_the_installation(api: ApiServer) -> None:
    operator = api.client("super_admin")
    settings = {"queue": "slow", "timeout_s": 60, "parameters": {"type": "object"}}
    assert operator.put("/definitions/made/versions/1", json=settings).status_code == 204
    assert operator.patch("/definitions/made", json={"max_attempts": 2}).status_code == 204
    shown = operator.get("/definitions/made").json()
    assert (shown["max_attempts"], shown["overrides"]) == (2, {"max_attempts": 2})
    assert operator.post("/definitions/made/pause").status_code == 204
    assert operator.get("/definitions/made").json()["paused_at"]
    assert operator.post("/definitions/made/resume").status_code == 204
    listed = operator.get("/definitions", params={"prefix": "ma", "limit": 1}).json()
    assert (listed["items"][0]["key"], listed["next"]) == ("made", listed["next"])
    assert operator.patch("/queues/slow", json={"max_running": 3}).status_code == 204
    assert operator.post("/queues/slow/pause").status_code == 204
    queues = {queue["name"]: queue for queue in operator.get("/queues").json()["items"]}
    assert (queues["slow"]["max_running"], bool(queues["slow"]["paused_at"])) == (3, True)
    assert operator.get("/workers").status_code == 200
    assert operator.post(f"/workers/{uuid4()}/drain").status_code == 404
    actions = [entry["action"] for entry in operator.get("/audit").json()["items"]]
    assert {"queue.pause", "queue.put", "definition.override"} <= set(actions)
    summary = api.client("viewer").get("/summary", params={"window_s": 60}).json()
    assert json.dumps(summary)


def test_numbers_of_any_length_are_returned_unchanged(api: ApiServer) -> None:
    digits = "1" + "0" * 40
    api.conn.execute(
        """
        with acting as materialized (select set_config('app.tenant_id', %s, true))
        select jobforge.enqueue_job('plain', %s::jsonb, '{"tags": ["long"]}') from acting
        """,
        [str(api.a.tenant_id), f'{{"n": {digits}}}'],
    )
    viewer = api.client("viewer")
    (listed,) = viewer.get("/jobs", params={"tag": "long"}).json()["items"]
    shown = viewer.get(f"/jobs/{listed['id']}")
    assert shown.json()["job"]["payload"] == {"n": int(digits)}
    assert shown.json()["job"]["created_at"] == listed["created_at"]
