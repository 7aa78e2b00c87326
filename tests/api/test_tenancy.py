"""No request of one tenant reads or changes data of another: every route is tested."""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from api.api_server import ApiServer
from api.tenant_objects import TenantObjects, create_tenant_objects, rows_of
from attacks import Attempts

from jobforge.api.auth.permissions import PREFIX, RULES, Rule
from jobforge.calls import Call
from jobforge.db import Database

BODIES = {
    ("PATCH", "/jobs/{job_id}"): {"priority": 9},
    ("PATCH", "/failures/{fingerprint}"): {"note": "mine"},
    ("PATCH", "/connectors/{config_id}"): {"name": "mine"},
    ("PATCH", "/webhooks/{endpoint_id}"): {"enabled": False},
    ("POST", "/jobs/{job_id}/reschedule"): {"run_at": None},
    ("PATCH", "/triggers/{trigger_id}"): {"enabled": False},
    ("POST", "/triggers/{trigger_id}/backfill"): {"times": ["2026-01-01T00:00:00Z"]},
    ("POST", "/triggers/{trigger_id}/test"): {"event_id": str(uuid4())},
    ("POST", "/batches/{batch_id}/jobs"): {"jobs": [{"definition": "plain"}]},
    **{
        ("POST", f"/worker/jobs/{{job_id}}/{verb}"): {"worker_id": str(uuid4()), "lease": 1}
        for verb in ("heartbeat", "complete", "fail")
    },
}
# Path parameters for objects of the installation.
SHARED = {"key", "version", "queue"}
# Requests that may contain a foreign ID next to an own one; `own` has the path values.
MENTIONS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a parent": ("job_id", "/jobs", {"definition": "plain", "after": ["{id}"]}),
    "a parent of many": (
        "job_id",
        "/jobs/batch",
        {"jobs": [{"definition": "plain", "after": ["{id}"]}]},
    ),
    "a parent in a batch": (
        "job_id",
        "/batches/{batch_id}/jobs",
        {"jobs": [{"definition": "plain", "after": ["{id}"]}]},
    ),
    "an event to be tried on": ("event_id", "/triggers/{trigger_id}/test", {"event_id": "{id}"}),
    "a delivery": ("delivery_id", "/webhooks/{endpoint_id}/deliveries/{id}/redeliver", {}),
}


@pytest.fixture(scope="module")
def foreign(api: ApiServer) -> TenantObjects:
    return create_tenant_objects(api)


@pytest.fixture(scope="module")
def own_objects(api: ApiServer) -> dict[str, str]:
    """Return the objects of tenant A."""
    admin = api.client("tenant_admin")
    trigger = {"type": "event", "label": "of A", "definition": "plain", "event": "of-a.*"}
    created: dict[str, tuple[str, dict[str, Any]]] = {
        "batch_id": ("/batches", {"jobs": [{"definition": "plain"}], "open": True}),
        "endpoint_id": ("/webhooks", {"url": "https://of-a.example/"}),
        "trigger_id": ("/triggers", trigger),
    }
    return {
        name: admin.post(path, json=body).json()["id"] for name, (path, body) in created.items()
    }


def _rules_with_ids(foreign: TenantObjects) -> Iterator[tuple[Rule, str, list[str]]]:
    """Return every route with the ID of a tenant's object, its path, and its parameters."""
    for rule in RULES.values():
        path = rule.path.removeprefix(PREFIX)
        names = re.findall(r"{(\w+)}", path)
        if set(names) - SHARED:
            assert set(names) <= foreign.path_values.keys(), (
                f"no object for the parameters of {path}"
            )
            yield rule, path, names


def _unknown(one: str) -> str:
    """Return an ID of the same form that does not exist."""
    return str(uuid4()) if "-" in one else uuid4().hex[: len(one)].ljust(len(one), "0")


def _ask(client: httpx2.Client, rule: Rule, path: str, ids: Sequence[str]) -> tuple[int, str]:
    """Return status and text of the response, without the parts that always differ."""
    names = re.findall(r"{(\w+)}", path)
    body = None if rule.method in {"GET", "DELETE"} else BODIES.get((rule.method, path))
    filled = path.format(**dict(zip(names, ids, strict=True)))
    return _comparable(client.request(rule.method, filled, json=body), ids)


def _comparable(answer: httpx2.Response, ids: Iterable[str]) -> tuple[int, str]:
    text = answer.text
    for each in (answer.headers["x-request-id"], *ids):
        text = text.replace(each, "…")
    return answer.status_code, text


@pytest.mark.attack("HTTP routes, with another tenant's IDs")
@pytest.mark.parametrize("role", ["viewer", "tenant_admin", "worker", "super_admin"])
def test_foreign_ids_get_the_response_of_unknown_ids(
    api: ApiServer, foreign: TenantObjects, role: str, attempts: Attempts
) -> None:
    before = list(rows_of(api.conn, foreign.tenant_id))
    assert {table for table, _ in before} >= {"jobs", "finished_jobs", "operations", "api_keys"}
    client, tried = _speaking_for_a(api, role), 0
    for rule, path, names in _rules_with_ids(foreign):
        if role == "super_admin" and not _is_of_a_tenant(rule):
            continue
        for ids in itertools.product(*(foreign.path_values[name] for name in names)):
            reported = _ask(client, rule, path, ids)
            allowed = rule.roles is not None and role in rule.roles
            assert reported[0] == (404 if allowed else 403), f"{path}: {reported}"
            assert not [one for one in foreign.ids if one in reported[1]], path
            assert reported == _ask(client, rule, path, list(map(_unknown, ids))), path
            tried += 1
    assert tried > 20
    attempts(tried)
    assert list(rows_of(api.conn, foreign.tenant_id)) == before


def _speaking_for_a(api: ApiServer, role: str) -> httpx2.Client:
    if role != "super_admin":
        return api.client(role)
    tenant = {"x-jobforge-tenant": str(api.a.tenant_id)}
    return api.client_with_headers({"authorization": f"Bearer {api.super_key}", **tenant})


def _is_of_a_tenant(rule: Rule) -> bool:
    return rule.roles is not None and "tenant_admin" in rule.roles


@pytest.mark.attack("HTTP routes, with another tenant's IDs")
@pytest.mark.parametrize("mention", MENTIONS)
def test_a_foreign_id_next_to_an_own_one_gets_the_response_of_an_unknown_id(
    api: ApiServer,
    foreign: TenantObjects,
    own_objects: dict[str, str],
    mention: str,
    attempts: Attempts,
) -> None:
    name, path, body = MENTIONS[mention]
    before = list(rows_of(api.conn, foreign.tenant_id))

    def ask(one: str) -> tuple[int, str]:
        sent = json.loads(json.dumps(body).replace("{id}", one))
        answer = api.client("tenant_admin").post(
            path.format(**own_objects, id=one), json=sent or None
        )
        return _comparable(answer, [one])

    attempts(len(foreign.path_values[name]))
    for one in foreign.path_values[name]:
        reported = ask(one)
        assert reported[0] == 404, reported
        assert reported == ask(_unknown(one))
    assert list(rows_of(api.conn, foreign.tenant_id)) == before


@pytest.mark.attack("HTTP routes, with another tenant's IDs")
@pytest.mark.parametrize("role", ["viewer", "tenant_admin"])
def test_a_key_may_name_its_own_tenant_and_learns_nothing_about_others(
    api: ApiServer, role: str, attempts: Attempts
) -> None:
    client = api.client(role)

    def ask(tenant: str) -> httpx2.Response:
        return client.get("/jobs", headers={"X-JobForge-Tenant": tenant})

    assert [ask(own_objects).status_code for own_objects in (str(api.a.tenant_id), "tenant-a")] == [
        200,
        200,
    ]
    refused = [ask(other) for other in (str(api.b.tenant_id), "tenant-b", "nobody", "x" * 201)]
    attempts(len(refused))
    reported = {(each.status_code, each.json()["detail"]) for each in refused}
    assert reported == {(403, "The key belongs to another tenant")}


@pytest.mark.attack("HTTP routes, with another tenant's IDs")
def test_no_list_of_a_tenant_has_objects_of_another(
    api: ApiServer, foreign: TenantObjects, attempts: Attempts
) -> None:
    admin = api.client("tenant_admin")
    assert admin.post("/jobs", json={"definition": "plain"}).status_code == 201
    lists = [
        rule.path.removeprefix(PREFIX)
        for rule in RULES.values()
        if rule.method == "GET" and "{" not in rule.path and "tenant_admin" in (rule.roles or ())
    ]
    cursor = {"cursor": _cursor(api.client("tenant_admin", api.b))}
    for path in lists:
        if path == "/stream":
            continue
        for params in ({}, cursor) if path in {"/jobs", "/operations", "/keys"} else ({},):
            attempts(1)
            answer = admin.get(path, params=params)
            assert answer.status_code == 200, f"{path}: {answer.text}"
            reported = _without_accesses(answer.json()) if path == "/audit" else answer.text
            assert not [one for one in foreign.ids if one in reported], path
            assert "known to B" not in reported, path


def _without_accesses(audit: dict[str, Any]) -> str:
    """Leave out the accesses of a super admin on behalf of the tenant, which the tenant's audit log
    shows.
    """
    return str([entry for entry in audit["items"] if entry["action"] != "tenant.access"])


@pytest.mark.attack("HTTP routes, with another tenant's IDs")
def test_a_filter_with_foreign_job_ids_finds_nothing(
    api: ApiServer, foreign: TenantObjects, attempts: Attempts
) -> None:
    admin = api.client("tenant_admin")
    for which in ({"tag": "of-b"}, {"fingerprint": foreign.path_values["fingerprint"][0]}):
        counted = admin.post("/operations/count", json={"kind": "cancel", "filter": which})
        assert counted.json() == {"jobs": 0}
        assert admin.get("/jobs", params=which).json()["items"] == []
        attempts(2)
    mine = {key["id"] for key in admin.get("/keys").json()["items"]}
    theirs = api.client("tenant_admin", api.b).get("/keys").json()["items"]
    assert theirs
    assert not mine & {key["id"] for key in theirs}


def _cursor(client: httpx2.Client) -> str:
    """Return a cursor that was created for another tenant."""
    return str(client.get("/jobs", params={"limit": 1}).json()["next"])


@pytest.mark.attack("sessions")
def test_a_foreign_slug_takes_the_same_work_as_an_unknown_slug(
    api: ApiServer, monkeypatch: pytest.MonkeyPatch, attempts: Attempts
) -> None:
    """A cache or a shorter path for one of the two would reveal by its duration
    which slugs exist.
    """
    done: list[tuple[str, object]] = []
    run = Database.run

    async def noted(self: Database, call: Call[Any]) -> Any:
        done.append((call.sql, call.tenant))
        return await run(self, call)

    operator, viewer = api.client("super_admin"), api.client("viewer")
    operator.get("/jobs", headers={"X-JobForge-Tenant": "tenant-b"})  # the server has cached it now
    viewer.get("/jobs")
    monkeypatch.setattr(Database, "run", noted)
    work = {}
    for slug in ("tenant-b", "nobody-has-this") * 2:
        done.clear()
        refused = viewer.get("/jobs", headers={"X-JobForge-Tenant": slug})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        work[slug] = [each for each in done if "find_api_key" not in each[0]]
    assert work["tenant-b"] == work["nobody-has-this"]
    assert viewer.get("/jobs", headers={"X-JobForge-Tenant": "tenant-a"}).status_code == 200
    attempts(4)
