"""`jobforge scheduler`, and what docs/schedules.md and its example show."""

import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Clock, Connection, Database, wait_until
from integration.call_setup import TENANT_A
from integration.page_runner import run_page
from integration.schedule_harness import ScheduleHarness
from integration.terminal import InProcessTerminal, Terminal

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "schedules"


@pytest.fixture
def settings(database: Database, conn: Connection) -> dict[str, str]:
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_A, '{"slug": "acme"}'])
    conn.execute("select jobforge.put_definition('mail', 1)")
    url = database.url_as("admin_login")
    return {"JOBFORGE_DATABASE_URL": url, "JOBFORGE_TENANT": "acme"}


def test_the_command_fires_due_schedules_until_a_signal(
    database: Database, conn: Connection, clock: Clock, settings: dict[str, str], folder: Path
) -> None:
    table = ScheduleHarness(database, conn, clock)
    made = table.add("0 * * * *", definition="mail")
    table.travel_to_next(made)
    with Terminal(folder, **settings).start("scheduler") as scheduler:
        scheduler.wait_for("scheduler.started")
        wait_until(lambda: len(table.jobs(made)) == 1)
        scheduler.signal(signal.SIGTERM)
        assert scheduler.wait_for_exit() == 0


def test_the_example_creates_a_job_each_minute(
    conn: Connection, clock: Clock, settings: dict[str, str], folder: Path
) -> None:
    shell = InProcessTerminal(folder, **settings)
    with Terminal(folder, **settings).start("worker", str(EXAMPLE / "app.py")) as worker:
        worker.wait_for("worker.started")
        clock.travel(minutes=1)
        conn.execute("select jobforge_private.wake_scheduler()")
        wait_until(lambda: _results(conn) != [])
        dev, *commands = _commands()
        assert dev == ["dev", "examples/schedules/app.py"]
        for words in commands:
            if "$(jobforge" not in " ".join(words):
                shell.read(*words)
    assert _results(conn)[0].startswith("created for 2")


def test_the_python_of_the_page_runs(
    database: Database, conn: Connection, settings: dict[str, str]
) -> None:
    page = ROOT / "docs" / "schedules.md"
    run_page(page, database, **settings)
    rows = conn.execute("select declared from jobforge.triggers").fetchall()
    assert {row["declared"] for row in rows} == {"morning_report", "clean_up", "refresh_prices"}


def _commands() -> Iterator[list[str]]:
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    for line in re.findall(r"^\$ jobforge (.*)$", text, re.MULTILINE):
        yield shlex.split(line)


def _results(conn: Connection) -> list[str]:
    rows = conn.execute("select result from jobforge.finished_jobs where state = 'succeeded'")
    return [row["result"] for row in rows]
