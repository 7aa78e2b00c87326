"""Connector configurations over HTTP: the API stores their secrets and never returns them."""

from pathlib import Path
from typing import Any

import pytest
from api.api_server import ApiServer
from integration.terminal import InProcessTerminal

from jobforge import calls, db
from jobforge.connectors.http_request import HTTP_REQUEST

SECRET = "tok-5f4e3d2c1b0a-secret"


def body(name: str, **more: Any) -> dict[str, Any]:
    settings = {
        "url": "https://api.example.com/v1/",
        "headers": {"Authorization": "Bearer {{secret.token}}"},
    }
    return {"name": name, "settings": settings, **more}


def test_a_secret_is_never_returned(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    secrets = {"token": {"value": SECRET}, "user": {"from": "env:BILLING_USER"}}
    created = admin.post("/connectors", json=body("billing", secrets=secrets))
    assert created.status_code == 201, created.text
    path = f"/connectors/{created.json()['id']}"
    shown = admin.get(path).json()
    assert shown["secrets"] == {"token": "sealed", "user": "env:BILLING_USER"}
    assert shown["settings"]["url"] == "https://api.example.com/v1/"
    changes = {"name": "paying", "secrets": {"user": None, "other": {"value": SECRET}}}
    assert admin.patch(path, json=changes).status_code == 204
    [listed] = admin.get("/connectors").json()["items"]
    assert (listed["name"], listed["secrets"]) == ("paying", {"token": "sealed", "other": "sealed"})
    output = "".join(admin.get(where).text for where in (path, "/connectors", "/audit"))
    assert SECRET not in output + created.text
    kept = api.conn.execute("select c::text as row from jobforge.connector_configs as c").fetchall()
    assert SECRET not in str(kept)
    assert admin.post("/connectors", json=body("paying")).status_code == 409
    assert admin.delete(path).status_code == 204
    assert admin.get(path).status_code == 404


@pytest.mark.attack("connectors")
def test_a_write_only_key_cannot_send_a_secret_elsewhere(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    created = admin.post("/connectors", json=body("moved", secrets={"token": {"value": SECRET}}))
    path = f"/connectors/{created.json()['id']}"
    writer = api.create_key("tenant_admin", api.a.tenant_id, scopes=["connectors:write"])
    writing = api.client_with_headers({"authorization": f"Bearer {writer}"})
    evil = {"url": "https://evil.example/", "headers": body("")["settings"]["headers"]}
    refused = writing.patch(path, json={"settings": evil})
    assert (refused.status_code, refused.json()["code"]) == (422, "secrets_required")
    assert refused.json()["errors"][0]["field"] == "secrets.token"
    assert refused.json()["facts"]["missing"] == ["token"]
    assert admin.get(path).json()["settings"]["url"] == "https://api.example.com/v1/"
    again = {"settings": evil, "secrets": {"token": {"value": "another"}}}
    assert writing.patch(path, json=again).status_code == 204


@pytest.mark.attack("secrets")
def test_a_viewer_sees_that_a_header_is_set_but_not_its_value(api: ApiServer) -> None:
    admin, viewer = api.client("tenant_admin"), api.client("viewer")
    settings = {
        "url": "https://hooks.example.com/services/T0/hunter-2?key=hunter-3",
        "headers": {"Authorization": "Bearer hunter-4", "X-Plain": "hunter-5"},
    }
    created = admin.post("/connectors", json={"name": "literal", "settings": settings})
    path = f"/connectors/{created.json()['id']}"
    assert admin.get(path).json()["settings"] == settings
    shown = viewer.get(path).json()
    assert shown["settings"] == {
        "url": "https://hooks.example.com/[redacted]",
        "headers": {"Authorization": "[redacted]", "X-Plain": "[redacted]"},
    }
    assert shown in viewer.get("/connectors").json()["items"]
    for where in (path, "/connectors", "/audit", "/events"):
        assert "hunter" not in viewer.get(where).text, where
    assert admin.delete(path).status_code == 204


WRONG: list[tuple[str, dict[str, Any]]] = [
    ("name", {"name": "a b"}),
    ("connector", {"connector": "smtp"}),
    ("settings.url", {"settings": {"url": "https://169.254.169.254/"}}),
    ("settings.url", {"settings": {"url": "http://example.com/"}}),
    ("settings.url", {"settings": {"url": "https://user:pw@example.com/"}}),
    ("settings.url", {"settings": {"url": "https://example.com:5432/"}}),
    ("settings.url", {"settings": {"url": "https://127。0。0。1/"}}),
    ("settings", {"settings": {}}),
    ("settings.headers", {"settings": {"url": "https://x.example/", "headers": {"Host": "y"}}}),
    (
        "settings.headers",
        {"settings": {"url": "https://x.example/", "headers": {"A": "b\r\nC: d"}}},
    ),
    ("secrets", {"secrets": {"token": "clear"}}),
    ("secrets", {"secrets": {"token": {"value": ""}}}),
    ("secrets", {"secrets": {"token": {"from": "env:../x"}}}),
    ("secrets", {"secrets": {"token": {"sealed": "c2VhbGVk"}}}),
    ("secrets", {"secrets": {"a b": {"value": "x"}}}),
    ("other", {"other": 1}),
]


@pytest.mark.parametrize(("field", "wrong"), WRONG)
def test_a_configuration_that_allows_no_request_is_refused(
    api: ApiServer, field: str, wrong: dict[str, Any]
) -> None:
    answer = api.client("tenant_admin").post("/connectors", json={**body("wrong"), **wrong})
    assert answer.status_code == 422, answer.text
    assert any(fault["field"].startswith(field) for fault in answer.json()["errors"]), answer.text


BAD_REQUESTS: list[dict[str, Any]] = [
    {},
    {"method": "CONNECT"},
    {"method": "TRACE"},
    {"headers": {"hOsT": "evil"}},
    {"headers": {"Transfer-Encoding": "chunked"}},
    {"headers": {"X-A": "b\r\nX-B: c"}},
    {"headers": {"X A": "b"}},
    {"url": "https://example.com/\r\nHost: x"},
    {"url": "https://example.com/" + "a" * 2048},
    {"redirects": 1000},
    {"timeout_s": 3600},
    {"proxy": "http://127.0.0.1"},
]


def test_payloads_of_a_connector_are_checked_when_they_are_enqueued(api: ApiServer) -> None:
    schema = HTTP_REQUEST.payload.model_json_schema()
    with db.connect(api.database.url) as conn:
        db.run(conn, calls.put_definition(HTTP_REQUEST.key, 1, {"parameters": schema}))
    admin = api.client("tenant_admin")
    for wrong in BAD_REQUESTS:
        payload = {"url": "https://example.com/", **wrong} if wrong else {}
        job = {"definition": HTTP_REQUEST.key, "payload": payload}
        assert admin.post("/jobs", json=job).status_code == 422, wrong
    right = {"url": "https://example.com/", "headers": {"X-Hostess": "ä", "Authorization": "x"}}
    job = {"definition": HTTP_REQUEST.key, "payload": right}
    assert admin.post("/jobs", json=job).status_code == 201


def test_the_command_line_does_the_same_over_the_server(api: ApiServer, tmp_path: Path) -> None:
    key = api.a.keys["tenant_admin"]
    shell = InProcessTerminal(tmp_path, JOBFORGE_SERVER=api.url, JOBFORGE_KEY=key)
    words = ("--header", "X-User: {{secret.user}}", "--secret-from", "user=env:USER")
    created = shell.read("connectors", "create", "remote", "https://x.example/", *words)
    moved = ("connectors", "edit", "remote", "--url", "https://y.example/")
    refused = shell.run(*moved)
    assert (refused.returncode, "secrets are required" in refused.stderr) == (2, True)
    shell.read(*moved, "--secret-from", "user=env:USER")
    shown = shell.read_json("connectors", "show", created)
    assert (shown["settings"]["url"], shown["secrets"]) == (
        "https://y.example/",
        {"user": "env:USER"},
    )
    assert shown["settings"]["headers"] == {"X-User": "{{secret.user}}"}
    assert created in shell.read("connectors", "list", "-q").split()
    for url in ("https://10.0.0.1/", "ftp://x.example/"):
        assert shell.run("connectors", "create", "bad", url).returncode == 2
    shell.read("connectors", "delete", "remote", "--yes")
    assert shell.run("connectors", "show", created).returncode == 3
