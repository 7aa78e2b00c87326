"""Request rates by key and by tenant, on one server and on several."""

import asyncio
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from api.api_server import ApiServer, open_api_server, serve_in_thread
from attacks import Attempts
from cluster import fresh_database

from jobforge.api.auth.principal import Principal
from jobforge.api.rate_limit import RateLimiter
from jobforge.calls import Call
from jobforge.config import Config
from jobforge.embedded import PostgresServer
from jobforge.security.api_keys import generate_api_key
from jobforge.types.api_keys import Role
from jobforge.types.api_requests import Allowance

RATES: dict[str, Any] = {"request_rate": 5, "tenant_request_rate": 10}


@pytest.fixture(scope="module")
def strict(server: PostgresServer) -> Iterator[ApiServer]:
    """A server that allows 5 requests per second and key, and 10 per tenant, with bursts of twice
    that.
    """
    with fresh_database(server) as database, open_api_server(database, **RATES) as opened:
        yield opened


def test_a_key_over_its_rate_is_refused_with_a_retry_time(strict: ApiServer) -> None:
    client = strict.client("viewer")
    answers = [client.get("/jobs") for _ in range(30)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(answers) > len(refused) > 0
    assert {answer.json()["code"] for answer in refused} == {"too_many_requests"}
    assert int(refused[0].headers["retry-after"]) >= 1
    assert strict.client("viewer", strict.b).get("/jobs").status_code == 200
    assert client.get(f"{strict.url}/health").status_code == 200


def drain(strict: ApiServer, bucket: str) -> None:
    """Empty an existing bucket; it does not refill, however slow the test is."""
    drained = strict.conn.execute(
        "update jobforge.request_rates set tokens = 0, refilled_at = now() + interval '1 hour'"
        " where bucket = %s",
        [bucket],
    )
    assert drained.rowcount == 1


def test_the_keys_of_a_tenant_share_its_rate(strict: ApiServer) -> None:
    keys = [strict.create_key("viewer", strict.b.tenant_id) for _ in range(2)]
    first, second = (strict.client_with_headers({"authorization": f"Bearer {key}"}) for key in keys)
    assert first.get("/jobs").status_code == 200
    drain(strict, f"tenant:{strict.b.tenant_id}")
    assert second.get("/jobs").status_code == 429  # this key is far from its own limit


def test_a_body_that_is_refused_counts_once(strict: ApiServer) -> None:
    key = {"authorization": f"Bearer {strict.create_key('tenant_admin', strict.a.tenant_id)}"}
    client = strict.client_with_headers(key)
    refused = [client.post("/jobs", json={"definition": "noop", "surprise": 1}) for _ in range(8)]
    assert {answer.json()["code"] for answer in refused} == {"unknown_field"}


def test_servers_share_the_rates(strict: ApiServer) -> None:
    key = strict.create_key("super_admin", None)
    headers = {"authorization": f"Bearer {key}"}
    config = Config(database_url=strict.database.url_as("server_login"), access_log=False, **RATES)
    first = strict.client_with_headers(headers)
    with serve_in_thread(config) as other:
        assert first.get("/tenants").status_code == 200
        drain(strict, f"key:{key.split('_')[1]}")
        assert first.get(f"{other}/api/v1/tenants").status_code == 429


@pytest.mark.attack("limits")
def test_forbidden_requests_count_too(strict: ApiServer) -> None:
    key = strict.create_key("viewer", strict.a.tenant_id)
    viewer = strict.client_with_headers({"authorization": f"Bearer {key}"})
    assert viewer.post("/jobs", json={"definition": "plain"}).status_code == 403
    drain(strict, f"key:{key.split('_')[1]}")
    assert viewer.post("/jobs", json={"definition": "plain"}).status_code == 429


@pytest.mark.attack("limits")
def test_requests_without_a_valid_key_count_by_address(
    strict: ApiServer, monkeypatch: pytest.MonkeyPatch, attempts: Attempts
) -> None:
    now = time.monotonic()
    clock = SimpleNamespace(monotonic=lambda: now)
    monkeypatch.setattr("jobforge.api.rate_limit.time", clock)
    config = Config(
        database_url=strict.database.url_as("server_login"), request_rate=5, access_log=False
    )
    nobody = strict.client_with_headers({"authorization": f"Bearer {generate_api_key().text}"})
    with serve_in_thread(config) as url:
        jobs = f"{url}/api/v1/jobs"
        answers = [nobody.get(jobs) for _ in range(12)]
        assert [answer.status_code for answer in answers] == [401] * 10 + [429] * 2
        assert int(answers[-1].headers["retry-after"]) >= 1
        # A request from the same address with a valid key.
        assert strict.client("viewer").get(jobs).status_code == 200
        elsewhere = {"x-forwarded-for": "203.0.113.9"}
        assert nobody.get(jobs, headers=elsewhere).status_code == 401
        now += 0.5
        assert [nobody.get(jobs).status_code for _ in range(3)] == [401, 401, 429]
    attempts(15)


class LotCounter:
    """Counts the token lots taken from a database; each call waits for all requests."""

    def __init__(self) -> None:
        self.calls = 0

    async def run(self, _: Call[Any]) -> Allowance:
        self.calls += 1
        for _turn in range(200):
            await asyncio.sleep(0)
        return Allowance(self.calls <= 20, 0.1)


@pytest.mark.anyio
@pytest.mark.attack("limits")
async def test_concurrent_requests_share_a_lot() -> None:
    counting = LotCounter()
    rates = RateLimiter(Config(request_rate=1000), counting)  # type: ignore[arg-type]  # it only runs calls
    principal = Principal("key:abcdefgh", Role.VIEWER)
    await asyncio.gather(*(rates.check_key(principal) for _ in range(120)))
    assert counting.calls == 2  # of 100 requests each


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
