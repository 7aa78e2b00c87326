"""Webhooks over HTTP: a secret is returned once, and forbidden addresses are refused."""

from typing import Any

import pytest
from api.api_server import SECRET_KEY, ApiServer

from jobforge import calls, db
from jobforge.security.vault import Vault
from jobforge.security.webhook_secrets import open_secret
from jobforge.security.webhook_signature import secret_text


def make(api: ApiServer, **settings: Any) -> dict[str, Any]:
    answer = api.client("tenant_admin").post(
        "/webhooks", json={"url": "https://example.com/hook", **settings}
    )
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.json()
    return created


def test_a_secret_is_shown_once_and_stored_sealed(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    created = make(api, events=["end"], definitions=["mail"])
    shown = admin.get(f"/webhooks/{created['id']}").json()
    assert (shown["events"], shown["definitions"], shown["enabled"]) == (["end"], ["mail"], True)
    output = admin.get("/webhooks").text + admin.get("/audit").text + str(shown)
    assert created["secret"] not in output
    assert "whsec_" not in output
    [row] = api.conn.execute(
        "select id, secret from jobforge.webhook_endpoints where id = %s", [created["id"]]
    ).fetchall()
    vault = Vault(SECRET_KEY)
    with db.connect(api.database.url) as conn:
        key = db.run(conn, vault.build_tenant_key_call(api.a.tenant_id))
    assert secret_text(open_secret(key, row["id"], row["secret"])) == created["secret"]


@pytest.mark.attack("connectors")
def test_a_url_with_another_origin_needs_the_secret(api: ApiServer) -> None:
    admin, created = api.client("tenant_admin"), make(api)
    path, moved = f"/webhooks/{created['id']}", {"url": "https://evil.example/"}
    refused = admin.patch(path, json=moved)
    assert (refused.status_code, refused.json()["code"]) == (422, "secrets_required")
    assert admin.patch(path, json={**moved, "secret": "whsec_short"}).status_code == 422
    assert admin.get(path).json()["url"] == "https://example.com/hook"
    assert admin.patch(path, json={**moved, "secret": created["secret"]}).status_code == 204
    [row] = api.conn.execute(
        "select id, secret from jobforge.webhook_endpoints where id = %s", [created["id"]]
    ).fetchall()
    with db.connect(api.database.url) as conn:
        key = db.run(conn, Vault(SECRET_KEY).build_tenant_key_call(api.a.tenant_id))
    assert secret_text(open_secret(key, row["id"], row["secret"])) == created["secret"]


@pytest.mark.attack("secrets")
def test_a_viewer_does_not_see_the_token_in_a_url(api: ApiServer) -> None:
    admin, viewer = api.client("tenant_admin"), api.client("viewer")
    url = "https://hooks.example.com/services/hunter-2?key=hunter-3"
    path = f"/webhooks/{make(api, url=url)['id']}"
    assert admin.get(path).json()["url"] == url
    shown = viewer.get(path).json()
    assert shown["url"] == "https://hooks.example.com/[redacted]"
    assert shown in viewer.get("/webhooks").json()["items"]
    for where in (path, "/webhooks", "/audit", f"{path}/deliveries"):
        assert "hunter" not in viewer.get(where).text, where


def test_the_old_secret_stays_valid_during_the_overlap(api: ApiServer) -> None:
    admin, created = api.client("tenant_admin"), make(api)
    path = f"/webhooks/{created['id']}"
    rotated = admin.post(f"{path}/rotate").json()
    assert rotated["secret"] != created["secret"]
    assert admin.get(path).json()["previous_secret_until"] is not None
    admin.post(f"{path}/rotate", json={"overlap_s": 0})
    assert admin.get(path).json()["previous_secret_until"] is None
    assert admin.post(f"{path}/rotate", json={"overlap_s": 1e9}).status_code == 422


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "https://user@example.com/",
        "https://127.0.0.1/",
        "https://127。0。0。1/",
        "https://2130706433/",
        "https://0x7f.1/",
        "https://[::1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://169.254.169.254/latest/meta-data",
        "https://10.1.2.3/",
        "https://localhost/",
        "https://example.com:22/",
        "https://example.com:5432/",
        "https://example.com/\r\nx: y",
        "https://example.com/" + "x" * 2100,
    ],
)
def test_a_forbidden_address_is_refused_when_it_is_saved(api: ApiServer, url: str) -> None:
    admin, created = api.client("tenant_admin"), make(api)
    assert admin.post("/webhooks", json={"url": url}).status_code == 422
    changed = admin.patch(f"/webhooks/{created['id']}", json={"url": url})
    assert changed.status_code == 422
    assert changed.json()["code"] in {"invalid", "address_not_allowed"}


def test_an_endpoint_is_tested_edited_redelivered_and_deleted(api: ApiServer) -> None:
    api.conn.execute("select jobforge.put_definition('connector.webhook.deliver', 1)")
    admin, created = api.client("tenant_admin"), make(api)
    path = f"/webhooks/{created['id']}"
    sent = admin.post(f"{path}/test")
    assert sent.status_code == 202
    delivery_id = sent.json()["delivery_id"]
    [delivery] = admin.get(f"{path}/deliveries", params={"state": "pending"}).json()["items"]
    assert (delivery["id"], delivery["event"]) == (delivery_id, "webhook.test")
    again = f"{path}/deliveries/{delivery_id}/redeliver"
    assert admin.post(again).status_code == 409
    with db.connect(api.database.url) as conn:
        cancel = calls.cancel_job(delivery["job_id"]).for_tenant(api.a.tenant_id)
        db.run(conn, cancel)
    assert admin.get(f"{path}/deliveries").json()["items"][0]["state"] == "failed"
    answer = admin.post(again)
    assert answer.status_code == 202
    assert answer.json()["job_id"] != delivery["job_id"]

    assert admin.patch(path, json={"enabled": False, "definitions": None}).status_code == 204
    viewer = api.client("viewer")
    assert viewer.get(path).json()["disabled_reason"] == "disabled manually"
    assert viewer.delete(path).status_code == 403
    assert admin.delete(path).status_code == 204
    assert viewer.get(path).status_code == 404
    assert admin.get(f"{path}/deliveries").status_code == 404
