"""Which role may use which route: every route is tested with every role."""

from typing import Any
from uuid import uuid4

import pytest
from api.api_server import ApiServer
from attacks import Attempts
from fastapi import FastAPI
from fastapi.routing import APIRoute

from jobforge.api import create_app
from jobforge.api.auth.permissions import PREFIX, RULES, SCOPES, Rule
from jobforge.api.guard import create_router
from jobforge.config import Config
from jobforge.errors import ConfigError
from jobforge.types.api_keys import Role

TENANT_ROLES = ("viewer", "tenant_admin", "worker")
EVERYBODY = (None, *TENANT_ROLES, "super_admin")


def _routes(app: FastAPI) -> set[tuple[str, str]]:
    document = app.openapi()["paths"]
    return {(method.upper(), path) for path, methods in document.items() for method in methods}


def _path(rule: Rule) -> str:
    numbers = {"version": "1", "key": "no-such", "queue": "no-such"}
    parts = rule.path.removeprefix(PREFIX).split("/")
    return "/".join(
        numbers.get(part[1:-1], str(uuid4())) if part.startswith("{") else part for part in parts
    )


def _ask(api: ApiServer, rule: Rule, role: str | None, **options: Any) -> tuple[int, str]:
    url = f"{api.url}{_path(rule)}" if not rule.path.startswith(PREFIX) else _path(rule)
    json = None if rule.method in {"GET", "DELETE"} else {"no_such_member": 1}
    with api.client(role).stream(rule.method, url, json=json, **options) as answer:
        is_problem = answer.headers["content-type"] == "application/problem+json"
        body = answer.read() if is_problem else b"{}"
        return answer.status_code, answer.json()["code"] if is_problem else body.decode()


def test_the_role_table_has_exactly_the_routes() -> None:
    assert _routes(create_app(Config())) == set(RULES)


@pytest.mark.attack("HTTP routes by role")
def test_every_route_admits_exactly_the_roles_of_its_row(
    api: ApiServer, attempts: Attempts
) -> None:
    attempts(len(RULES) * len(EVERYBODY))
    for rule in RULES.values():
        for role in EVERYBODY:
            status, code = _ask(api, rule, role)
            output = f"{rule.method} {rule.path} as {role}: {status} {code}"
            if rule.roles is None:
                assert status not in {401, 403} or code == "unauthenticated", output
            elif role is None:
                assert (status, code) == (401, "unauthenticated"), output
            elif role in rule.roles:
                assert status not in {401, 403}, output
            else:
                assert (status, code) == (403, "forbidden"), output
            assert status < 500, output


def test_a_route_without_a_row_cannot_be_added() -> None:
    router = create_router("jobs")

    async def show() -> None: ...

    with pytest.raises(ConfigError, match="no row in permissions"):
        router.get("/jobs/secret")(show)


def test_every_route_is_guarded() -> None:
    app = create_app(Config())
    bare = [
        route.path
        for route in app.routes
        if isinstance(route, APIRoute) and type(route) is APIRoute
    ]
    # The OpenAPI document and the redirect to the dashboard, if it is built, are public.
    assert [path for path in bare if path != "/"] == [f"{PREFIX}/openapi.json"]


def test_a_viewer_cannot_change_anything_and_a_worker_can_only_work() -> None:
    for rule in RULES.values():
        roles = rule.roles or frozenset()
        if rule.method != "GET":
            assert Role.VIEWER not in roles, rule
        if Role.WORKER in roles:
            assert rule.path.startswith((f"{PREFIX}/worker/", f"{PREFIX}/session")), rule
        if rule.path.startswith((f"{PREFIX}/tenants", f"{PREFIX}/workers")):
            assert roles == {Role.SUPER_ADMIN}, rule


@pytest.mark.attack("API keys")
def test_scopes_restrict_a_role(api: ApiServer, attempts: Attempts) -> None:
    reader = api.create_key("tenant_admin", api.a.tenant_id, scopes=["jobs:read"])
    client = api.client_with_headers({"authorization": f"Bearer {reader}"})
    assert client.get("/jobs").status_code == 200
    refused = client.post("/jobs", json={"definition": "plain"})
    assert (refused.status_code, refused.json()["code"]) == (403, "out_of_scope")
    assert client.get("/queues").json()["code"] == "out_of_scope"
    attempts(2)
    assert "jobs:write" in SCOPES


@pytest.mark.attack("API keys")
def test_a_key_cannot_create_a_key_with_more_rights(api: ApiServer, attempts: Attempts) -> None:
    narrow = api.create_key("tenant_admin", api.a.tenant_id, scopes=["keys:write", "jobs:read"])
    client = api.client_with_headers({"authorization": f"Bearer {narrow}"})
    wish = {"name": "wider", "role": "viewer"}
    assert client.post("/keys", json=wish).json()["code"] == "out_of_scope"
    assert client.post("/keys", json={**wish, "scopes": ["jobs:write"]}).status_code == 403
    assert client.post("/keys", json={**wish, "scopes": ["jobs:read"]}).status_code == 201
    admin = api.client("tenant_admin")
    refused = admin.post("/keys", json={"name": "up", "role": "super_admin"})
    assert refused.status_code == 422
    attempts(3)


@pytest.mark.attack("API keys")
def test_only_a_super_admin_may_name_another_tenant(api: ApiServer, attempts: Attempts) -> None:
    attempts(len(TENANT_ROLES))
    header = {"x-jobforge-tenant": str(api.b.tenant_id)}
    for role in TENANT_ROLES:
        path = "/jobs" if role != "worker" else "/session"
        refused = api.client(role).get(path, headers=header)
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    own = {"x-jobforge-tenant": str(api.a.tenant_id)}
    assert api.client("viewer").get("/jobs", headers=own).status_code == 200

    operator = api.client("super_admin")
    assert operator.get("/jobs").json()["code"] == "tenant_required"
    assert operator.get("/jobs", headers=header).status_code == 200
    assert operator.get("/jobs", headers={"x-jobforge-tenant": "tenant-b"}).status_code == 200
    assert operator.get("/jobs", headers={"x-jobforge-tenant": "nobody"}).status_code == 404
    log = api.client("tenant_admin", api.b).get("/audit", params={"action": "tenant.access"})
    assert [entry["target"] for entry in log.json()["items"]] == ["GET /api/v1/jobs"]
