"""Authentication by API keys and sessions. Tokens are in test_tokens.py."""

import time
from datetime import UTC, datetime, timedelta
from uuid import UUID

import httpx2
import pytest
from api.api_server import API, ApiServer, serve_in_thread
from attacks import Attempts
from cluster import wait_until

from jobforge.api.auth.cookie import read_session, write_session
from jobforge.config import Config
from jobforge.redact import redact_text
from jobforge.security.api_keys import generate_api_key, parse_api_key


def _bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


@pytest.mark.attack("API keys")
def test_a_request_needs_a_valid_key(api: ApiServer, attempts: Attempts) -> None:
    good = api.a.keys["viewer"]
    unknown = generate_api_key().text
    wrong = good[:-4] + ("AAAA" if not good.endswith("AAAA") else "BBBB")
    refused: list[list[tuple[str, str]]] = [
        [],
        [("authorization", "")],
        [("authorization", "Bearer")],
        [("authorization", good)],
        [("authorization", f"Basic {good}")],
        [("authorization", f"Bearer {unknown}")],
        [("authorization", f"Bearer {wrong}")],
        [("authorization", "Bearer " + "x" * 10_000)],
        [("authorization", f"Bearer {good}"), ("authorization", f"Bearer {good}")],
        [("authorization", f"Bearer {good}'; drop table jobforge.jobs; --")],
        [("x-api-key", good)],
        [("cookie", "jobforge_session=")],
        [("cookie", f"jobforge_session={good}")],
    ]
    client = api.client(None)
    bodies = set()
    for headers in refused:
        answer = client.get("/jobs", headers=httpx2.Headers(headers))
        assert answer.status_code == 401, (headers, answer.text)
        assert answer.headers["www-authenticate"] == "Bearer"
        bodies.add((answer.json()["code"], answer.json()["detail"]) if len(headers) < 2 else None)
    # An unknown key and a wrong key get the same response.
    assert len(bodies - {None}) == 1
    assert client.get("/jobs", headers=_bearer(good)).status_code == 200
    assert client.get(f"/jobs?key={good}").status_code == 401
    attempts(len(refused) + 1)


def test_a_revoked_key_stops_at_once_and_an_expired_key_at_its_time(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    created = admin.post("/keys", json={"name": "short", "role": "viewer"}).json()
    headers = _bearer(created["key"])
    assert api.client(None).get("/session", headers=headers).json()["role"] == "viewer"
    assert admin.delete(f"/keys/{created['id']}").status_code == 204
    assert api.client(None).get("/session", headers=headers).status_code == 401
    # revoking it twice is not an error
    assert admin.delete(f"/keys/{created['id']}").status_code == 204

    past = datetime.now(UTC) - timedelta(days=1)
    refused = admin.post(
        "/keys", json={"name": "past", "role": "viewer", "expires_at": past.isoformat()}
    )
    assert refused.status_code == 422
    soon = api.create_key("viewer", api.a.tenant_id, expires_at=past + timedelta(days=2))
    api.conn.execute(
        "update jobforge.api_keys set expires_at = now() - interval '1 s' where lookup = %s",
        [soon.split("_")[1]],
    )
    assert api.client(None).get("/session", headers=_bearer(soon)).status_code == 401


def test_a_rotated_key_works_during_the_overlap(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    old = admin.post("/keys", json={"name": "turning", "role": "viewer"}).json()
    new = admin.post(f"/keys/{old['id']}/rotate", json={"overlap_s": 60}).json()
    for created in (old, new):
        assert api.client(None).get("/session", headers=_bearer(created["key"])).status_code == 200
    last = admin.post(f"/keys/{new['id']}/rotate").json()
    assert api.client(None).get("/session", headers=_bearer(new["key"])).status_code == 401
    assert api.client(None).get("/session", headers=_bearer(last["key"])).status_code == 200


@pytest.mark.attack("API keys")
def test_a_narrow_key_cannot_take_over_a_wider_key(api: ApiServer, attempts: Attempts) -> None:
    admin = api.client("tenant_admin")
    wide = admin.post("/keys", json={"name": "wide", "role": "tenant_admin"}).json()
    scopes = {"name": "narrow", "role": "tenant_admin", "scopes": ["keys:write", "jobs:read"]}
    own = admin.post("/keys", json=scopes).json()
    narrow = api.client_with_headers(_bearer(own["key"]))
    assert narrow.post(f"/keys/{wide['id']}/rotate").json()["code"] == "out_of_scope"
    assert narrow.post(f"/keys/{UUID(int=2**128 - 1)}/rotate").status_code == 404
    assert api.client(None).get("/session", headers=_bearer(wide["key"])).status_code == 200
    assert narrow.post(f"/keys/{own['id']}/rotate").status_code == 201
    attempts(2)


def test_the_secret_of_a_key_is_shown_once_and_stored_nowhere(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    created = admin.post("/keys", json={"name": "once", "role": "worker"}).json()["key"]
    listed = admin.get("/keys", params={"limit": 200})
    assert created not in listed.text
    assert "hash" not in listed.json()["items"][0]
    secret = created.split("_", 2)[2]
    rows = api.conn.execute("select to_jsonb(k)::text as row from jobforge.api_keys as k")
    assert not [row for row in rows if secret in row["row"]]
    used = [key["last_used_at"] for key in listed.json()["items"] if key["role"] == "tenant_admin"]
    assert any(used)


def _login(api: ApiServer, key: str, **headers: str) -> httpx2.Response:
    return httpx2.post(
        f"{api.url}{API}/session", json={"key": key}, headers=headers, trust_env=False
    )


def _cookie(answer: httpx2.Response) -> str:
    return answer.headers["set-cookie"].split(";")[0]


def test_a_session_cookie_holds_no_key_and_ends_with_its_key(api: ApiServer) -> None:
    admin = api.client("tenant_admin")
    created = admin.post("/keys", json={"name": "for people", "role": "tenant_admin"}).json()
    begun = _login(api, created["key"])
    assert begun.status_code == 201
    set_cookie = begun.headers["set-cookie"]
    assert "HttpOnly" in set_cookie
    assert "SameSite=lax" in set_cookie
    assert created["key"].split("_", 2)[2] not in set_cookie

    cookie = {"cookie": _cookie(begun)}
    client = api.client(None)
    assert client.get("/session", headers=cookie).json()["key_id"] == created["id"]
    ended = client.delete("/session", headers=cookie)
    assert 'jobforge_session="";' in ended.headers["set-cookie"]
    assert admin.delete(f"/keys/{created['id']}").status_code == 204
    assert client.get("/session", headers=cookie).status_code == 401
    assert _login(api, created["key"]).status_code == 401


@pytest.mark.attack("sessions")
def test_a_session_cannot_be_forged_nor_prolonged(api: ApiServer, attempts: Attempts) -> None:
    key = api.a.keys["viewer"]
    value = _cookie(_login(api, key)).partition("=")[2]
    lookup, expires, session_id, seal = value.split(".")
    other = api.a.keys["tenant_admin"].split("_")[1]
    own = parse_api_key(key)
    assert own is not None
    past = write_session(lookup, 1, own.hash, None)
    with_a_secret = write_session(lookup, int(expires), own.hash, "s" * 32)
    another = write_session(lookup, int(expires), own.hash, None).split(".")[2]
    for forged in (
        f"{lookup}.{int(expires) + 1}.{session_id}.{seal}",
        f"{other}.{expires}.{session_id}.{seal}",
        f"{lookup}.{expires}.{another}.{seal}",
        f"{lookup}.{expires}.{session_id}.{'A' * 43}",
        past,
        with_a_secret,
    ):
        headers = {"cookie": f"jobforge_session={forged}"}
        assert api.client(None).get("/session", headers=headers).status_code == 401, forged
        attempts(1)
    session = read_session(value)
    assert session is not None
    assert session.has_valid_seal(own.hash, None)


@pytest.mark.attack("sessions")
def test_a_cookie_is_refused_after_sign_out(api: ApiServer, attempts: Attempts) -> None:
    key = api.a.keys["viewer"]
    ended, other = _cookie(_login(api, key)), _cookie(_login(api, key))
    client = api.client(None)
    config = Config(database_url=api.database.url_as("server_login"), access_log=False)

    def status(cookie: str, url: str = api.url) -> int:
        return client.get(f"{url}{API}/session", headers={"cookie": cookie}).status_code

    with serve_in_thread(config) as elsewhere:
        assert status(ended) == status(ended, elsewhere) == 200
        assert client.delete("/session", headers={"cookie": ended}).status_code == 204
        assert status(ended) == 401
        wait_until(lambda: status(ended, elsewhere) == 401)
        assert client.delete("/session", headers={"cookie": ended}).status_code == 204
        assert status(other) == status(other, elsewhere) == 200
    attempts(2)


@pytest.mark.attack("sessions")
def test_signing_out_ends_only_a_session_that_the_server_created(
    api: ApiServer, attempts: Attempts
) -> None:
    """Anyone can send this request, so cookies that no server has created must not store a row."""
    own = parse_api_key(api.a.keys["viewer"])
    assert own is not None
    expires = int(time.time()) + 60
    cookies = [
        write_session(own.lookup, expires, b"x" * 32, None),
        write_session("abcdefgh", expires, own.hash, None),
        write_session(own.lookup, 1, own.hash, None),
        "nonsense",
    ]
    counting = "select count(*) as n from jobforge.ended_sessions"
    before = api.conn.execute(counting).fetchall()
    for cookie in cookies:
        headers = {"cookie": f"jobforge_session={cookie}"}
        assert api.client(None).delete("/session", headers=headers).status_code == 204
    assert api.conn.execute(counting).fetchall() == before
    attempts(len(cookies))


@pytest.mark.attack("sessions")
def test_a_key_cannot_create_a_key_that_expires_later(api: ApiServer, attempts: Attempts) -> None:
    end = (datetime.now(UTC) + timedelta(hours=1)).replace(microsecond=0)
    text = api.create_key("tenant_admin", api.a.tenant_id, expires_at=end)
    short = api.client_with_headers(_bearer(text))
    later = end + timedelta(seconds=1)
    new = {"name": "child", "role": "viewer"}
    refused = short.post("/keys", json={**new, "expires_at": later.isoformat()})
    assert (refused.status_code, refused.json()["code"]) == (403, "out_of_scope")
    admin = api.client("tenant_admin")
    lasting = admin.post("/keys", json={"name": "lasting", "role": "viewer"}).json()
    own = short.get("/session").json()["key_id"]
    created = [
        short.post("/keys", json=new),
        short.post("/keys", json={**new, "expires_at": end.isoformat()}),
        short.post(f"/keys/{lasting['id']}/rotate"),
        short.post(f"/keys/{own}/rotate", json={"overlap_s": 60}),
    ]
    ends = {each["id"]: each["expires_at"] for each in admin.get("/keys").json()["items"]}
    for answer in created:
        assert answer.status_code == 201, answer.text
        assert datetime.fromisoformat(ends[answer.json()["id"]]) == end
    attempts(len(created) + 1)


@pytest.mark.attack("sessions")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"origin": "{own}.evil.example"}, 403),
        ({"origin": "{own}"}, 201),
        ({"sec-fetch-site": "same-origin"}, 201),
    ],
)
def test_only_pages_of_the_server_can_use_a_session(
    api: ApiServer, headers: dict[str, str], status: int, attempts: Attempts
) -> None:
    attempts(int(status == 403))
    sent = {name: value.format(own=api.url) for name, value in headers.items()}
    sent["cookie"] = _cookie(_login(api, api.a.keys["tenant_admin"]))
    answer = api.client(None).post("/jobs", json={"definition": "plain"}, headers=sent)
    assert answer.status_code == status, answer.text
    assert api.client(None).get("/jobs", headers=sent).status_code == 200


@pytest.mark.attack("sessions")
def test_another_site_cannot_sign_a_browser_in(api: ApiServer) -> None:
    key = api.a.keys["viewer"]
    assert _login(api, key, origin="https://evil.example").status_code == 403
    assert _login(api, key, origin=api.url).status_code == 201


@pytest.mark.attack("sessions")
def test_a_key_does_not_work_as_a_ticket_nor_a_ticket_as_a_key(
    api: ApiServer, attempts: Attempts
) -> None:
    key = api.a.keys["viewer"]
    url = f"{api.url}{API}/session"
    refused = [
        ({"ticket": key}, 401),
        ({"key": "jfticket_" + "A" * 43}, 401),
        ({"ticket": key, "key": key}, 422),
        ({}, 422),
    ]
    for body, status in refused:
        answer = httpx2.post(url, json=body, trust_env=False)
        assert answer.status_code == status, (body, answer.text)
        assert "set-cookie" not in answer.headers
    attempts(len(refused))


def test_over_https_the_cookie_is_bound_to_the_host(api: ApiServer) -> None:
    secure = {"x-forwarded-proto": "https"}
    begun = _login(api, api.a.keys["viewer"], **secure)
    assert begun.headers["set-cookie"].startswith("__Host-jobforge_session=")
    assert "Secure" in begun.headers["set-cookie"]
    sent = {"cookie": _cookie(begun)}
    assert api.client(None).get("/session", headers={**sent, **secure}).status_code == 200
    assert api.client(None).get("/session", headers=sent).status_code == 401


def test_a_request_keeps_its_own_id_if_the_id_is_harmless(api: ApiServer) -> None:
    client = api.client("viewer")
    kept = client.get("/jobs", headers={"x-request-id": "order-66.a"})
    assert kept.headers["x-request-id"] == "order-66.a"
    replaced = client.get("/jobs", headers={"x-request-id": "a b\tc"})
    assert len(replaced.headers["x-request-id"]) == 32


def test_a_key_within_a_string_is_hidden() -> None:
    for _ in range(20):
        key = generate_api_key().text
        assert redact_text(f"used {key}, then {key}.") == "used [redacted], then [redacted]."
