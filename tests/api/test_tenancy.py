"""No request for one tenant sees or changes anything of another: every route is tried."""

import itertools
import re
from collections.abc import Iterator
from uuid import uuid4

import httpx2
import pytest
from api.foreign import Foreign, make_objects, rows_of
from api.house import House

from jobforge.api.roles import PREFIX, RULES, Rule

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
}


@pytest.fixture(scope="module")
def foreign(api: House) -> Foreign:
    return make_objects(api)


def _paths(rule: Rule, foreign: Foreign) -> Iterator[str]:
    """The paths of a route with the foreign ids in all places that take one."""
    path = rule.path.removeprefix(PREFIX)
    names = re.findall(r"{(\w+)}", path)
    if names and all(name in foreign.named for name in names):
        for ids in itertools.product(*(foreign.named[name] for name in names)):
            yield path.format(**dict(zip(names, ids, strict=True)))


def _ask(client: httpx2.Client, rule: Rule, path: str) -> httpx2.Response:
    wish = (rule.method, rule.path.removeprefix(PREFIX))
    json = None if rule.method in {"GET", "DELETE"} else BODIES.get(wish)
    return client.request(rule.method, path, json=json)


@pytest.mark.parametrize("role", ["viewer", "tenant_admin"])
def test_foreign_ids_are_as_if_they_did_not_exist(api: House, foreign: Foreign, role: str) -> None:
    before = list(rows_of(api.conn, foreign.tenant_id))
    assert {table for table, _ in before} >= {"jobs", "finished_jobs", "operations", "api_keys"}
    client, tried = api.client(role), 0
    for rule in RULES.values():
        if "/worker/" in rule.path:
            continue
        for path in _paths(rule, foreign):
            answer = _ask(client, rule, path)
            allowed = rule.roles is not None and role in rule.roles
            assert answer.status_code == (404 if allowed else 403), f"{path}: {answer.text}"
            assert not [one for one in foreign.ids if one in answer.text], path
            tried += 1
    assert tried > 20
    assert list(rows_of(api.conn, foreign.tenant_id)) == before


@pytest.mark.parametrize("role", ["viewer", "tenant_admin"])
def test_a_key_may_name_its_own_tenant_and_learns_of_no_other(api: House, role: str) -> None:
    client = api.client(role)

    def ask(tenant: str) -> httpx2.Response:
        return client.get("/jobs", headers={"X-JobForge-Tenant": tenant})

    assert [ask(own).status_code for own in (str(api.a.tenant_id), "tenant-a")] == [200, 200]
    refused = [ask(other) for other in (str(api.b.tenant_id), "tenant-b", "nobody", "x" * 201)]
    told = {(each.status_code, each.json()["detail"]) for each in refused}
    assert told == {(403, "this key is of another tenant")}


def test_no_list_of_a_tenant_has_anything_of_another(api: House, foreign: Foreign) -> None:
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
            answer = admin.get(path, params=params)
            assert answer.status_code == 200, f"{path}: {answer.text}"
            assert not [one for one in foreign.ids if one in answer.text], path
            assert "known to B" not in answer.text, path


def test_a_filter_that_names_foreign_jobs_finds_none(api: House, foreign: Foreign) -> None:
    admin = api.client("tenant_admin")
    for which in ({"tag": "of-b"}, {"fingerprint": foreign.named["fingerprint"][0]}):
        counted = admin.post("/operations/count", json={"kind": "cancel", "filter": which})
        assert counted.json() == {"jobs": 0}
        assert admin.get("/jobs", params=which).json()["items"] == []
    mine = {key["id"] for key in admin.get("/keys").json()["items"]}
    theirs = api.client("tenant_admin", api.b).get("/keys").json()["items"]
    assert theirs
    assert not mine & {key["id"] for key in theirs}


def _cursor(client: httpx2.Client) -> str:
    """A cursor that was made for somebody else."""
    return str(client.get("/jobs", params={"limit": 1}).json()["next"])
