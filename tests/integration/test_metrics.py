"""Metrics of a worker: each documented metric exists and changes."""

import asyncio
import os
import re
import signal
from contextlib import suppress
from pathlib import Path
from uuid import UUID, uuid4

import httpx2
import pytest
from attacks import Attempts
from cluster import Connection, Database, wait_until
from integration.call_setup import TENANT_A
from integration.isolation_rig import APP
from integration.terminal import Terminal
from integration.worker_harness import WaitingJobs, WorkerHarness, cut_connections, eventually
from prometheus_client.parser import text_string_to_metric_families

from jobforge import Retry, calls, db
from jobforge.api.metrics import MetricsCollector
from jobforge.api.request_metrics import RequestMetrics
from jobforge.errors import ConfigError
from jobforge.observability import prometheus
from jobforge.observability.metrics import Histogram, Meters
from jobforge.observability.metrics_server import serve_metrics
from jobforge.scheduler.scheduler import Scheduler
from jobforge.sdk.loader import load_app
from jobforge.types.jobs import JobRequest, State
from jobforge.types.triggers import TriggerType
from jobforge.worker.isolation.runner import ProcessRunner
from jobforge.worker.runner_protocol import JobServices

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
Samples = dict[str, float]
QUICK = """
from jobforge import JobForge

jf = JobForge()

@jf.job(isolation="inline")
async def quick() -> None: ...
"""
OF_A_MOMENT = (
    "jobforge_worker_running_jobs",
    "jobforge_worker_slots",
    "jobforge_reconnects_total",
)
# Metrics that are 0 while all is well.
STATES = {"jobforge_worker_unsettled_jobs", "jobforge_worker_disconnected"}


def documented_metrics(*headings: str) -> set[str]:
    """Return the metrics in the tables under these headings."""
    parts = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")}
    named = re.compile(r"^\| `(jobforge_\w+)` \|", re.MULTILINE)
    return {name for heading in headings for name in named.findall(parts[heading])}


def names(page: str) -> set[str]:
    """Return the documented names: counters by their sample name, histograms by their own name."""
    return {
        family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        for family in text_string_to_metric_families(page)
        if family.name.startswith("jobforge_")
    }


def totals(meters: Meters) -> Samples:
    """Return the sum over all labels; for histograms the number of observations."""
    found: Samples = {}
    page = prometheus.render_page(prometheus.collect_families(meters)).decode()
    for family in text_string_to_metric_families(page):
        for sample in family.samples if family.name.startswith("jobforge_") else ():
            if not sample.name.endswith(("_bucket", "_sum", "_created")):
                name = sample.name.removesuffix("_count")
                found[name] = found.get(name, 0) + sample.value
    return found


async def test_the_docs_list_exactly_the_metrics_of_a_server(database: Database) -> None:
    traffic = RequestMetrics()
    traffic.add("GET", None, 404, 0.1)
    async with db.Database(database.url_as("server_login")) as pool:
        page = (await MetricsCollector(pool, traffic).render()).decode()
    assert names(page) == documented_metrics("Server metrics")


async def test_every_metric_of_a_worker_is_documented_and_changes(
    database: Database, conn: Connection
) -> None:
    harness, meters = WorkerHarness(database, conn), Meters()
    waiters = WaitingJobs(harness)

    @harness.app.job(isolation="inline", retry=Retry(max_attempts=2, base=0.01, cap=0.01))
    async def fail() -> None:
        raise ValueError

    harness.register()
    left = harness.enqueue("wait")
    db.run(conn, calls.claim_jobs(uuid4(), {"default": 1}))
    _expire(conn, left)
    failing = harness.enqueue("fail")
    async with harness.running_worker(meters=meters, poll_s=0.1):
        await harness.wait_for_state(failing, State.DEAD)
        await eventually(lambda: meters.reaped == 1)
        held = harness.enqueue("wait")
        await eventually(lambda: waiters.running == 1)
        busy = totals(meters)
        _expire(conn, held)
        db.run(conn, calls.reap_jobs())
        await eventually(lambda: meters.lost_leases == 1)
        cut_connections(conn)
        await eventually(lambda: totals(meters)["jobforge_reconnects_total"] > 0)
        busy |= {"jobforge_reconnects_total": 1}
    await _run_processes(database, conn, meters)
    await _run_scheduler(harness, meters)
    found = totals(meters) | {name: busy[name] for name in OF_A_MOMENT}
    assert set(found) == documented_metrics("Worker and scheduler metrics")
    assert {name for name, value in found.items() if not value} == STATES
    assert meters.attempts == {("fail", "failed"): 2, ("segfault", "crashed"): 1}
    assert (meters.retries["fail"], meters.dead["fail"]) == (1, 1)
    assert meters.first_claims["fail"] == 1
    assert meters.claimed["default"] == 4
    assert sum(meters.waits["default"].counts) == 4


def _expire(conn: Connection, job_id: UUID) -> None:
    conn.execute(
        "update jobforge.jobs set lease_expires_at = now() - interval '1 hour' where id = %s",
        [job_id],
    )


async def _run_processes(database: Database, conn: Connection, meters: Meters) -> None:
    """Run a process that ends by a signal."""
    harness = WorkerHarness(database, conn)
    harness.app = load_app(APP)
    harness.register()

    def isolated(host: JobServices) -> ProcessRunner:
        return ProcessRunner(
            APP, host, environment=os.environ, meters=meters, isolation_level="process"
        )

    job_id = harness.enqueue("segfault", max_attempts=1)
    async with harness.running_worker(meters=meters, runners={"process": isolated}):
        await harness.wait_for_state(job_id, State.DEAD)


async def _run_scheduler(harness: WorkerHarness, meters: Meters) -> None:
    settings = {"label": "now", "definition": "fail", "cron": "0 0 1 1 *"}
    trigger = db.run(
        harness.conn, calls.create_trigger(TriggerType.SCHEDULE, settings, tenant_id=TENANT_A)
    )
    db.run(harness.conn, calls.run_trigger(trigger, tenant_id=TENANT_A))
    db.run(harness.conn, calls.emit_event("order.paid", tenant_id=TENANT_A))
    async with db.Database(harness.database.url_as("worker_login")) as pool:
        scheduler = Scheduler(pool, meters=meters)
        running = asyncio.create_task(scheduler.run())
        await eventually(lambda: meters.firings == meters.events == 1)
        scheduler.stop()
        await running


async def test_the_port_serves_only_metrics_and_health() -> None:
    async with serve_metrics(Meters(), "127.0.0.1", 0) as port:
        status, body = await _ask(port, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert (status, b"jobforge_claim_seconds_count 0.0" in body) == (200, True)
        assert await _ask(port, b"GET /health HTTP/1.1\r\n\r\n") == (200, b'{"status":"ok"}')
        assert (await _ask(port, b"GET /secrets HTTP/1.1\r\n\r\n"))[0] == 404
        assert (await _ask(port, b"POST /metrics HTTP/1.1\r\n\r\n"))[0] == 405
        assert await _ask(port, b"x" * 100_000) == (0, b"")
        with pytest.raises(ConfigError, match="Cannot serve metrics"):
            async with serve_metrics(Meters(), "127.0.0.1", port):
                pass


async def _ask(port: int, request: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(ConnectionError):
        writer.write(request)
        await writer.drain()
        answer = await reader.read()
        writer.close()
        head, _, body = answer.partition(b"\r\n\r\n")
        return (int(head.split(b" ")[1]), body) if head else (0, b"")
    return 0, b""


def test_a_histogram_counts_each_value_in_its_bucket() -> None:
    histogram = Histogram((1, 2, 5))
    for value in (0.5, 1, 1.5, 9):
        histogram.add(value)
    histogram.add(2, times=3)
    assert histogram.counts == [2, 4, 0, 1]
    assert histogram.total == 18
    many = Histogram((1, 2, 5))
    many.add_all([9, 0.5, 2, 2, 1, 2, 1.5])
    assert (many.counts, many.total) == (histogram.counts, histogram.total)


def test_a_worker_process_serves_its_metrics_on_the_port_that_it_logs(
    database: Database, conn: Connection, tmp_path: Path
) -> None:
    (tmp_path / "app.py").write_text(QUICK)
    shell = Terminal(tmp_path, JOBFORGE_DATABASE_URL=database.url_as("worker_login"))
    with shell.start("worker", "app.py", "--metrics-port", "0", "--log-format", "json") as worker:
        worker.wait_for('"worker.started"')
        [port] = re.findall(r'"metrics\.shown".*"port":\s*(\d+)', worker.output)
        request = JobRequest("quick", {})
        db.run(conn, calls.enqueue_job(request, tenant_id=TENANT_A))
        url = f"http://127.0.0.1:{port}/metrics"
        done = 'jobforge_attempts_total{definition="quick",outcome="succeeded"} 1.0'
        wait_until(lambda: done in httpx2.get(url, trust_env=False).text)
        worker.signal(signal.SIGTERM)
        assert worker.wait_for_exit() == 0


@pytest.mark.attack("sessions")
async def test_with_a_token_the_metrics_of_a_worker_are_not_public(
    attempts: Attempts,
) -> None:
    token = "t" * 32
    async with serve_metrics(Meters(), "127.0.0.1", 0, token) as port:
        url = f"http://127.0.0.1:{port}"
        async with httpx2.AsyncClient(base_url=url, trust_env=False) as client:
            for wrong in ("", "Bearer", f"Bearer {token}x", f"Basic {token}", token):
                refused = await client.get("/metrics", headers={"authorization": wrong})
                assert refused.status_code == 401
                assert "jobforge" not in refused.text
            assert (await client.get("/health")).status_code == 200
            given = {"authorization": f"Bearer {token}"}
            assert (await client.get("/metrics", headers=given)).status_code == 200
    attempts(5)
