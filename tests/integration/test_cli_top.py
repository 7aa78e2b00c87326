"""The screen of `jobforge top`, with textual's pilot, on a real database."""

from pathlib import Path
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database
from integration.terminal import InProcessTerminal
from textual.widgets import Static

from jobforge import calls, db
from jobforge.cli.engine import open_engine
from jobforge.cli.top_data import Overview, read_overview
from jobforge.cli.top_screen import OverviewReader, Pane, TopApp
from jobforge.config import Config
from jobforge.errors import Unavailable
from jobforge.types.jobs import JobRequest, Outcome, OutcomeReport

pytestmark = pytest.mark.anyio

ACME, GLOBEX = uuid4(), uuid4()
WORKER = uuid4()


@pytest.fixture
def read(database: Database, conn: Connection) -> OverviewReader:
    """Acme has a running job and a failed one; Globex has a waiting one."""
    for tenant_id, slug in ((ACME, "acme"), (GLOBEX, "globex")):
        db.run(conn, calls.put_tenant(tenant_id, {"slug": slug}))
    for key, queue in (("mail", "post"), ("report", "slow")):
        db.run(conn, calls.put_definition(key, 1, {"queue": queue, "max_attempts": 1}))
    db.run(conn, calls.register_worker(WORKER, ["post"], slots=4, host="h", pid=7))
    _end(conn, {"type": "Timeout", "message": "[bold]no answer"})
    _claim(conn)
    db.run(conn, calls.enqueue_job(JobRequest("report", {}), tenant_id=GLOBEX))

    def read(chosen: str | None, state: str) -> Overview:
        with open_engine(Config(database_url=database.url_as("admin_login"))) as engine:
            return read_overview(engine, None, jobs_tenant_id=chosen, state=state)

    return read


def _claim(conn: Connection) -> "tuple[UUID, UUID, int]":
    db.run(conn, calls.enqueue_job(JobRequest("mail", {}), tenant_id=ACME))
    [job] = db.run(conn, calls.claim_jobs(WORKER, {"post": 1}))
    return job.token


def _end(conn: Connection, error: dict[str, str]) -> None:
    report = OutcomeReport(*_claim(conn), Outcome.FAILED, error=error)
    db.run(conn, calls.complete_job(WORKER, report))


def _cells(screen: TopApp, name: str) -> list[list[str]]:
    pane = screen.query_one(f"#{name}", Pane)
    return [[str(cell) for cell in pane.get_row_at(row)] for row in range(pane.row_count)]


def _said(screen: TopApp) -> str:
    return str(screen.query_one("#summary", Static).content)


@pytest.mark.parametrize("every", ["0", "0.01s"])
def test_the_refresh_interval_has_a_minimum(tmp_path: Path, every: str) -> None:
    shell = InProcessTerminal(tmp_path, JOBFORGE_DATABASE_URL="postgresql://127.0.0.1:1/app")
    result = shell.run("top", "--every", every)
    assert result.returncode == 2
    assert "--every must be at least 0.1 seconds" in result.stderr


async def test_the_screen_shows_sorts_pauses_and_quits(read: OverviewReader) -> None:
    screen = TopApp(read, read(None, "running"), every_s=3600)
    async with screen.run_test(size=(160, 60)) as pilot:
        assert "1 queued, 1 running, 1 worker live" in _said(screen)
        assert [row[:3] for row in _cells(screen, "queues")] == [
            ["post", "0", "1"],
            ["slow", "1", "0"],
        ]
        assert [row[1] for row in _cells(screen, "tenants")] == ["acme", "globex"]
        assert _cells(screen, "workers")[0][1] == "live"
        assert [row[2] for row in _cells(screen, "jobs")] == ["mail@1"]

        await pilot.press("s", "r")  # the queue table has the focus
        assert [row[0] for row in _cells(screen, "queues")] == ["slow", "post"]
        await pilot.press("f")
        await screen.workers.wait_for_complete()
        assert _cells(screen, "jobs")[0][6] == "Timeout: [bold]no answer"
        await pilot.press("tab", "down", "enter")  # the second tenant
        await screen.workers.wait_for_complete()
        assert screen.query_one("#jobs", Pane).border_title == "failed jobs of globex"
        await pilot.press("p")
        assert _said(screen) == "paused; press p to resume"
        await pilot.press("p")
        await screen.workers.wait_for_complete()
        assert "queued" in _said(screen)
        await pilot.press("q")
    assert screen.return_code == 0


async def test_an_outage_is_shown_and_survived(read: OverviewReader) -> None:
    first = read(None, "running")
    is_away = True

    def read_or_fail(chosen: str | None, state: str) -> Overview:
        if is_away:
            raise Unavailable("the database cannot be reached")
        return read(chosen, state)

    screen = TopApp(read_or_fail, first, every_s=3600)
    async with screen.run_test():
        screen.load_overview()
        await screen.workers.wait_for_complete()
        assert _said(screen) == "the database cannot be reached; retrying"
        is_away = False
        screen.load_overview()
        await screen.workers.wait_for_complete()
        assert "1 running" in _said(screen)
