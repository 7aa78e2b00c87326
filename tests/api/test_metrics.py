"""A server's metrics for Prometheus, who may read them, and metrics of the database."""

import socket
import threading
from collections.abc import Iterator

import httpx2
import pytest
from api.api_server import ApiServer, open_api_server
from cluster import connect_to, fresh_database, wait_until
from prometheus_client.parser import text_string_to_metric_families

from jobforge.embedded import PostgresServer

TOKEN = "what prometheus says to be let in, and nobody else"


@pytest.fixture(scope="module")
def api(server: PostgresServer) -> Iterator[ApiServer]:
    with (
        fresh_database(server) as database,
        open_api_server(database, metrics_token=TOKEN) as opened,
    ):
        yield opened


def scrape(api: ApiServer, **headers: str) -> httpx2.Response:
    return api.client_with_headers(headers).get(f"{api.url}/metrics")


def samples(api: ApiServer) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    page = scrape(api, authorization=f"Bearer {TOKEN}")
    assert page.status_code == 200, page.text
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.text)
        for sample in family.samples
    }


def test_only_the_configured_token_reads_metrics(api: ApiServer) -> None:
    page = scrape(api, authorization=f"Bearer {TOKEN}")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert scrape(api, authorization=f"Bearer {TOKEN}x").status_code == 401
    assert scrape(api).status_code == 401
    assert api.client("super_admin").get(f"{api.url}/metrics").status_code == 200
    assert api.client("tenant_admin").get(f"{api.url}/metrics").status_code == 403


def test_the_next_scrape_shows_what_happened(api: ApiServer) -> None:
    tenant = str(api.a.tenant_id)
    waiting = "jobforge_tenant_queued_jobs", (("tenant", tenant),)
    before = samples(api).get(waiting, 0)
    answer = api.client("tenant_admin").post("/jobs", json={"definition": "plain"})
    assert answer.status_code == 201
    wait_until(lambda: samples(api).get(waiting) == before + 1)
    found = samples(api)
    route = ("method", "POST"), ("route", "/api/v1/jobs"), ("status", "201")
    assert found["jobforge_http_requests_total", route] == 1
    assert found["jobforge_http_request_seconds_count", (("route", "/api/v1/jobs"),)] == 1
    assert found["jobforge_jobs", (("queue", "default"), ("state", "queued"))] >= 1
    assert found["jobforge_workers", (("state", "live"),)] == 0


def test_a_client_that_disconnects_within_a_body_is_counted(api: ApiServer) -> None:
    whole = api.client("tenant_admin").build_request("POST", "/jobs/batch", json={"jobs": []})
    head = "".join(f"{name}: {value}\r\n" for name, value in whole.headers.items())
    with socket.create_connection((whole.url.host, whole.url.port or 80)) as leaving:
        leaving.sendall(f"POST {whole.url.path} HTTP/1.1\r\n{head}\r\n{{".encode())
    route = ("method", "POST"), ("route", "/api/v1/jobs/batch"), ("status", "499")
    wait_until(lambda: samples(api).get(("jobforge_http_requests_total", route)) == 1)


def test_an_unknown_path_adds_no_label(api: ApiServer) -> None:
    api.client_with_headers({}).get(f"{api.url}/no/such/path")
    names = [labels for name, labels in samples(api) if name == "jobforge_http_requests_total"]
    routes = {dict(labels)["route"] for labels in names}
    assert "unknown" in routes
    assert not [route for route in routes if "such" in route]


def test_database_metrics_show_findings_and_the_holder_of_the_horizon(
    api: ApiServer,
) -> None:
    with connect_to(api.database.url) as holder:
        holder.autocommit = False
        holder.execute("set transaction isolation level repeatable read")
        holder.execute("select 1")
        api.conn.execute("grant pg_read_all_stats to server_login")
        try:
            shown = api.client("super_admin").get("/database").json()
        finally:
            api.conn.execute("revoke pg_read_all_stats from server_login")
        mine = str(holder.info.backend_pid)
    fixes = {each["name"]: each["fix"] for each in shown["horizon"]}
    assert fixes[mine] == f"select pg_terminate_backend({mine});"
    checks = {each["check"] for each in shown["findings"]}
    assert {"server", "schema", "vacuum", "partitions", "schedules", "operations"} <= checks
    assert shown["schema"]["outdated"] == []
    assert shown["schema"]["migration"].startswith("migrations/0")
    assert "jobs" in {each["name"] for each in shown["tables"]}
    assert shown["connections"]["used"] > 0
    assert shown["scheduler"]["schedule_lag_s"] >= 0
    assert shown["login"] == "server_login"


def test_database_metrics_show_lock_waits(api: ApiServer) -> None:
    with connect_to(api.database.url) as holder, connect_to(api.database.url) as waiter:
        holder.execute("select pg_advisory_lock(1)")
        pids = waiter.info.backend_pid, holder.info.backend_pid
        waiting = threading.Thread(target=waiter.execute, args=["select pg_advisory_lock(1)"])
        waiting.start()
        try:
            wait_until(lambda: pids in lock_waits(api))
        finally:
            holder.execute("select pg_advisory_unlock(1)")
            waiting.join()
    assert pids not in lock_waits(api)


def lock_waits(api: ApiServer) -> list[tuple[int, int]]:
    shown = api.client("super_admin").get("/database").json()["lock_waits"]
    assert all(each["seconds"] >= 0 for each in shown)
    return [(each["pid"], each["holder"]) for each in shown]


def test_database_metrics_show_waiting_sessions_and_stalled_work(api: ApiServer) -> None:
    api.client("tenant_admin").post("/jobs", json={"definition": "plain"})
    api.conn.execute("select jobforge.start_maintenance('statistics', 0, 'here:1')")
    shown = api.client("super_admin").get("/database").json()
    [waiting] = shown["waiting"]
    assert waiting["tenant_id"] == str(api.a.tenant_id)
    assert waiting["queued"] >= 1
    assert ("unserved", "plain@1") in {
        (each["kind"], each["subject"]) for each in shown["problems"]
    }
    [task] = shown["scheduler"]["maintenance"]
    assert (task["task"], task["by"]) == ("statistics", "here:1")
    assert shown["missed_firings"] == []
