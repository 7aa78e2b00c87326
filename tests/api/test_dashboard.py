"""How the server serves the dashboard: security headers and caching."""

import gzip
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from api.api_server import ApiServer
from fastapi import FastAPI
from starlette.testclient import TestClient

from jobforge.api import create_app
from jobforge.api.auth.login_tickets import LoginTickets
from jobforge.api.dashboard import Dashboard
from jobforge.config import Config
from jobforge.security.api_keys import generate_api_key

BUILT = Path(__file__).parent.parent.parent / "jobforge" / "ui"
MOST_AT_FIRST = 150_000

pytestmark = pytest.mark.skipif(
    not (BUILT / "index.html").exists(), reason="the dashboard is not built; make ui builds it"
)


def _get(api: ApiServer, path: str, **headers: str) -> httpx2.Response:
    return httpx2.get(f"{api.url}{path}", headers=headers, trust_env=False)


def test_a_page_may_run_its_own_scripts_and_no_others(api: ApiServer) -> None:
    page = _get(api, "/ui/")
    assert page.status_code == 200
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cross-origin-opener-policy"] == "same-origin"
    scripts = re.findall(r"<script([^>]*)>(.*?)</script>", page.text, re.DOTALL)
    assert len(scripts) == 3
    assert all("src=" in head or 'type="application/json"' in head for head, _ in scripts)
    assert "style=" not in page.text


def test_every_path_serves_the_page_which_is_always_revalidated(api: ApiServer) -> None:
    page = _get(api, "/ui/")
    deep = _get(api, "/ui/t/acme/jobs/4711")
    assert deep.text == page.text
    assert page.headers["cache-control"] == "no-cache"


def test_files_with_a_hash_are_cached_forever_and_sent_compressed(api: ApiServer) -> None:
    path = re.findall(r'src="(/ui/assets/[^"]+)"', _get(api, "/ui/").text)[0]
    packed = _get(api, path, **{"accept-encoding": "gzip"})
    assert "immutable" in packed.headers["cache-control"]
    assert packed.headers["content-encoding"] == "gzip"
    plain = _get(api, path, **{"accept-encoding": "identity"})
    assert plain.text == packed.text
    assert "content-encoding" not in plain.headers
    assert _get(api, "/ui/assets/no-such.js").status_code == 404


def test_static_files_accept_only_reads(api: ApiServer) -> None:
    refused = httpx2.post(f"{api.url}/ui/", trust_env=False)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")
    assert _get(api, "/ui/../pyproject.toml").status_code == 404
    assert "[project]" not in _get(api, "/ui/%2e%2e/%2e%2e/pyproject.toml").text
    assert ".stamp" not in Dashboard()._files  # noqa: SLF001 - the folder has more files than are served


def test_the_app_can_be_mounted_under_any_path(api: ApiServer) -> None:
    config = Config(database_url=api.database.url_as("server_login"), access_log=False)
    jobs = create_app(config)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with jobs.router.lifespan_context(jobs):
            yield

    outer = FastAPI(lifespan=lifespan)
    outer.mount("/background", jobs)
    with TestClient(outer) as client:
        page = client.get("/background/ui/jobs")
        block = re.findall(r'<script type="application/json" id="config">(.*?)</script>', page.text)
        reported = json.loads(block[0])
        assert (reported["base"], reported["api"]) == ("/background/ui", "/background/api/v1")
        sources = re.findall(r'(?:src|href)="([^"]+)"', page.text)
        assert sources
        assert all(client.get(source).status_code == 200 for source in sources)
        key = api.a.keys["viewer"]
        assert client.post(f"{reported['api']}/session", json={"key": key}).status_code == 201
        assert client.get(f"{reported['api']}/session").json()["role"] == "viewer"


def test_a_build_without_the_dashboard_says_so(tmp_path: Path) -> None:
    app = FastAPI()
    app.mount("/ui", Dashboard(tmp_path))
    with TestClient(app) as client:
        assert "not in this build" in client.get("/ui/jobs").text


def test_the_first_load_is_small() -> None:
    manifest: dict[str, dict[str, Any]] = json.loads((BUILT / "manifest.json").read_text())
    wanted, files = ["index.html", "src/pages/overview.tsx"], {"index.html"}
    seen: set[str] = set()
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        files |= {manifest[name]["file"], *manifest[name].get("css", [])}
        wanted += manifest[name].get("imports", [])
    size = sum(len(gzip.compress((BUILT / each).read_bytes())) for each in files)
    assert size < MOST_AT_FIRST, f"{size} bytes, compressed"


def test_the_root_redirects_to_the_dashboard(api: ApiServer) -> None:
    answer = _get(api, "/")
    assert (answer.status_code, answer.headers["location"]) == (307, "/ui/")
    app = FastAPI()
    app.mount("/background", create_app(Config()))
    mounted = TestClient(app).get("/background/", follow_redirects=False)
    assert mounted.headers["location"] == "/background/ui/"


def test_a_ticket_replaces_its_key_once_and_for_a_short_time() -> None:
    tickets, key = LoginTickets(), generate_api_key()
    ticket = tickets.create(key)
    assert key.text not in ticket
    assert tickets.redeem(ticket) == key
    assert tickets.redeem(ticket) is None
    expired = LoginTickets(lasts_s=0)
    assert expired.redeem(expired.create(key)) is None
    assert tickets.redeem(key.text) is None


def test_an_unknown_ticket_is_refused(api: ApiServer) -> None:
    refused = httpx2.post(
        f"{api.url}/api/v1/session", json={"ticket": "jfticket_" + "A" * 43}, trust_env=False
    )
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
