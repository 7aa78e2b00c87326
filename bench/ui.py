"""Measure the responsiveness of the dashboard: `make bench-ui`.

A browser on a running server scrolls through 50,000 jobs; then 100 of the jobs change each second.
The figure is the longest task of the page's main thread, from the browser's trace; users notice
tasks over 200 ms. `--quick` runs everything with few jobs, to check that the benchmark works.
"""

import argparse
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID, uuid4

import http_server
import psycopg
from bench_servers import BenchServers
from compared_side import jobforge_side
from http_server import RunningServer
from playwright.sync_api import Page, sync_playwright
from sql import Figure, format_figure

from jobforge.types.api_keys import Role

TENANT = UUID(int=1)
LONGEST_MS = 200.0
_BROWSER = os.environ.get("JOBFORGE_CHROMIUM", "/usr/bin/chromium")
_ENQUEUE = """
select jobforge.enqueue_jobs(
    (select jsonb_agg(jsonb_build_object('definition', 'nothing', 'payload', '{}'::jsonb))
       from generate_series(1, %s)), %s)
"""


@dataclass(frozen=True, slots=True)
class Size:
    jobs: int
    changes_s: float


FULL = Size(jobs=50_000, changes_s=10.0)
QUICK = Size(jobs=500, changes_s=2.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny counts, to check that it works")
    size = QUICK if parser.parse_args().quick else FULL
    figures = []
    with BenchServers() as servers:
        side = jobforge_side()
        http_server.install_template(servers, side)
        with (
            http_server.start_server(servers, side) as server,
            psycopg.connect(server.database) as conn,
        ):
            conn.autocommit = True
            conn.execute("select jobforge.put_definition('nothing', 1)")
            _enqueue(conn, size.jobs)
            with _open_page(server) as page:
                for figure in (_scroll(page, size), _watch_changes(page, server, size)):
                    print(format_figure(figure), flush=True)
                    figures.append(figure)
    return 0 if all(figure.is_met for figure in figures) else 1


def _enqueue(conn: psycopg.Connection[tuple[object, ...]], jobs: int) -> None:
    for start in range(0, jobs, 1000):
        conn.execute(_ENQUEUE, [min(1000, jobs - start), TENANT])


@contextmanager
def _open_page(server: RunningServer) -> Iterator[Page]:
    url = "http://{}:{}".format(*server.address)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(60_000)
        key = server.create_key(TENANT, Role.TENANT_ADMIN)
        page.context.request.post(f"{url}/api/v1/session", data={"key": key})
        page.goto(f"{url}/ui/jobs")
        page.wait_for_selector("[data-job]")
        yield page
        browser.close()


def _scroll(page: Page, size: Size) -> Figure:
    """Scroll to the last job, as fast as the pages load."""
    trace = _Trace(page)
    page.mouse.move(700, 500)
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        page.mouse.wheel(0, 4000)
        loaded = page.evaluate(
            "document.querySelector('[role=table]').getAttribute('aria-rowcount')"
        )
        at_end = page.evaluate(
            "scrollY + innerHeight >= document.documentElement.scrollHeight - 100"
        )
        if int(loaded) >= size.jobs and at_end:
            break
    longest = trace.longest_ms()
    return Figure(
        f"longest task while scrolling through {size.jobs:,} jobs, ms",
        longest,
        LONGEST_MS,
        0.0,
        f"rows in the page: {page.locator('[data-job]').count()}",
        lower_is_better=True,
    )


def _watch_changes(page: Page, server: RunningServer, size: Size) -> Figure:
    """Press a key ten times per second while 100 jobs per second finish."""
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(500)
    trace = _Trace(page)
    stopped = threading.Event()
    worker = threading.Thread(target=_work, args=(server.database, stopped))
    worker.start()
    slowest = 0.0
    deadline = time.monotonic() + size.changes_s
    while time.monotonic() < deadline:
        began = time.monotonic()
        page.keyboard.press("j")
        page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
        slowest = max(slowest, 1000 * (time.monotonic() - began))
        page.wait_for_timeout(100)
    stopped.set()
    worker.join()
    note = f"the slowest key took {slowest:.0f} ms"
    return Figure(
        "longest task while 100 jobs change each second, ms",
        trace.longest_ms(),
        LONGEST_MS,
        0.0,
        note,
        lower_is_better=True,
    )


def _work(database: str, stopped: threading.Event) -> None:
    """Claim and complete ten jobs every tenth of a second until `stopped` is set."""
    worker_id = uuid4()
    with psycopg.connect(database, autocommit=True) as conn:
        while not stopped.wait(0.1):
            claimed = conn.execute(
                "select tenant_id, job_id, lease from jobforge.claim_jobs(%s, '{default}', '{10}')",
                [worker_id],
            ).fetchall()
            for tenant_id, job_id, lease in claimed:
                conn.execute(
                    "select jobforge.complete_job(%s, %s, %s, %s, %s)",
                    [tenant_id, job_id, worker_id, lease, '{"outcome": "succeeded"}'],
                )


class _Trace:
    """The browser's trace of one page, from the creation of this object."""

    def __init__(self, page: Page) -> None:
        self._browser = page.context.browser
        assert self._browser is not None  # noqa: S101 - the page's browser is open
        self._browser.start_tracing(page=page, categories=["toplevel"])

    def longest_ms(self) -> float:
        """Return the longest task of the main thread, in CPU time to exclude other processes."""
        assert self._browser is not None  # noqa: S101 - the page's browser is open
        events = json.loads(self._browser.stop_tracing())["traceEvents"]
        main = {
            (each["pid"], each["tid"])
            for each in events
            if each["name"] == "thread_name" and each["args"]["name"] == "CrRendererMain"
        }
        tasks = [each.get("tdur", 0) for each in events if (each["pid"], each["tid"]) in main]
        return float(max(tasks, default=0)) / 1000


if __name__ == "__main__":
    sys.exit(main())
