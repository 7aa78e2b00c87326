"""Statistics over HTTP: for one tenant, for all tenants, and the usage of each."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from api.api_server import API, ApiServer, TenantKeys

from jobforge.client.client import Client

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def api_with_attempts(api: ApiServer) -> ApiServer:
    """Store two attempts of tenant A and one of tenant B, as a roll-up does."""
    add(api, api.a, "mail", 2)
    add(api, api.b, "of_b", 1)
    return api


def add(api: ApiServer, party: TenantKeys, definition: str, n: int) -> None:
    api.conn.execute(
        """
        insert into jobforge.minute_statistics
        select %s, date_bin('1 minute', now(), 'epoch'), %s, 0, 0, 0, 0, 100, 3000, 1500, 4096, %s,
               'default', h, h
          from (select array_fill(0, array[10]) || %s::integer || array_fill(0, array[21])) as g(h)
        """,
        [party.tenant_id, n, definition, n],
    )


def test_a_viewer_sees_the_statistics_of_its_tenant(api_with_attempts: ApiServer) -> None:
    viewer = api_with_attempts.client("viewer")
    [item] = viewer.get("/statistics", params={"by": "definition", "step_s": 3600}).json()["items"]
    assert (item["definition"], item["attempts"], item["succeeded"]) == ("mail", 2, 2)
    assert 512 <= item["run_p95_ms"] < 1024
    for nothing in ({"queue": "other"}, {"definition": "of_b"}, {"until": "2026-01-01T00:00:00Z"}):
        assert viewer.get("/statistics", params=nothing).json()["items"] == []


def test_a_super_admin_sees_the_sum_or_one_tenant(api_with_attempts: ApiServer) -> None:
    operator = api_with_attempts.client("super_admin")
    [item] = operator.get("/statistics", params={"step_s": 86_400}).json()["items"]
    assert (item["definition"], item["attempts"]) == (None, 3)
    one = {"X-JobForge-Tenant": str(api_with_attempts.b.tenant_id)}
    [item] = operator.get("/statistics", params={"step_s": 86_400}, headers=one).json()["items"]
    assert item["attempts"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"step_s": 59},
        {"step_s": 61},
        {"by": "tag"},
        {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
        {"since": "2020-01-01T00:00:00Z"},
        {"definition": "no name"},
        {"since": "yesterday"},
    ],
)
def test_invalid_ranges_are_refused(api: ApiServer, wrong: dict[str, str]) -> None:
    answer = api.client("viewer").get("/statistics", params=wrong)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid")


def test_usage_by_tenant_is_json_or_csv(api_with_attempts: ApiServer) -> None:
    operator = api_with_attempts.client("super_admin")
    used = {UUID(each["tenant_id"]): each for each in operator.get("/usage").json()["items"]}
    mine = used[api_with_attempts.a.tenant_id]
    assert (mine["attempts"], mine["run_s"], mine["cpu_s"]) == (2, 3, 1.5)
    assert mine["peak_memory_bytes"] == 4096
    asked = [
        operator.get("/usage", params={"format": "csv"}),
        operator.get("/usage", headers={"accept": "text/csv"}),
    ]
    for answer in asked:
        assert answer.headers["content-type"].startswith("text/csv")
        header, *lines = answer.text.splitlines()
        assert header == "tenant_id,slug,attempts,run_s,cpu_s,peak_memory_bytes"
        assert any(line.startswith(str(api_with_attempts.b.tenant_id)) for line in lines)


def test_the_client_returns_what_the_engine_returns(api_with_attempts: ApiServer) -> None:
    since = datetime.now(UTC) - HOUR
    with Client(api_with_attempts.url.removesuffix(API), api_with_attempts.super_key) as client:
        [statistic] = client.get_statistics(
            since, step_s=86_400, definition="mail", tenant_id=api_with_attempts.a.tenant_id
        )
        used = {each.tenant_id: each for each in client.meter_tenants(since)}
    assert (statistic.attempts, statistic.run_ms) == (2, 3000)
    assert statistic.at.tzinfo is not None
    assert used[api_with_attempts.b.tenant_id].run_s == 3
