"""How fast one may ask, by key and by tenant, on one server and on several."""

from collections.abc import Iterator
from typing import Any

import pytest
from api.house import House, house, served
from cluster import fresh_database

from jobforge.config import Config
from jobforge.embedded import Server

RATES: dict[str, Any] = {"request_rate": 5, "tenant_request_rate": 10}


@pytest.fixture(scope="module")
def strict(server: Server) -> Iterator[House]:
    """5 requests a second and key, 10 and tenant; twice as many at once."""
    with fresh_database(server) as database, house(database, **RATES) as opened:
        yield opened


def test_a_key_that_asks_too_fast_is_told_when_to_come_back(strict: House) -> None:
    client = strict.client("viewer")
    answers = [client.get("/jobs") for _ in range(30)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert len(answers) > len(refused) > 0
    assert {answer.json()["code"] for answer in refused} == {"too_many_requests"}
    assert int(refused[0].headers["retry-after"]) >= 1
    assert strict.client("viewer", strict.b).get("/jobs").status_code == 200
    assert client.get(f"{strict.url}/health").status_code == 200


def test_the_keys_of_a_tenant_share_its_rate(strict: House) -> None:
    keys = [strict.make_key("viewer", strict.b.tenant_id) for _ in range(12)]
    clients = [strict.bare({"authorization": f"Bearer {key}"}) for key in keys]
    statuses = [client.get("/jobs").status_code for client in clients for _ in range(6)]
    assert 429 in statuses  # no key came near its own limit


def test_a_body_that_the_short_way_leaves_to_its_route_counts_once(strict: House) -> None:
    key = {"authorization": f"Bearer {strict.make_key('tenant_admin', strict.a.tenant_id)}"}
    client = strict.bare(key)
    refused = [client.post("/jobs", json={"definition": "noop", "surprise": 1}) for _ in range(8)]
    assert {answer.json()["code"] for answer in refused} == {"unknown_field"}


def test_servers_share_the_rates(strict: House) -> None:
    key = {"authorization": f"Bearer {strict.make_key('super_admin', None)}"}
    config = Config(database_url=strict.database.url_as("server_login"), access_log=False, **RATES)
    first = strict.bare(key)
    assert first.get("/tenants").status_code == 200
    # Empty, and full again in an hour: whatever the machine is busy with.
    strict.conn.execute(
        "update jobforge.request_rates set tokens = 0, refilled_at = now() + interval '1 hour'"
        " where bucket like 'key:%'"
    )
    with served(config) as other:
        assert first.get(f"{other}/api/v1/tenants").status_code == 429  # alone it would let 10 pass
