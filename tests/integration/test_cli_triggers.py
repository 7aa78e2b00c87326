"""`jobforge triggers` and `jobforge scheduler`, and what docs/schedules.md and its example show."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from cluster import Clock, Connection, Database, wait_until
from integration.seam import TENANT_A
from integration.terminal import QuickTerminal, Terminal
from integration.timetable import Timetable

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "schedules"


@pytest.fixture
def settings(database: Database, conn: Connection) -> dict[str, str]:
    conn.execute("select jobforge.put_tenant(%s, %s)", [TENANT_A, '{"slug": "acme"}'])
    conn.execute("select jobforge.put_definition('mail', 1)")
    url = database.url_as("admin_login")
    return {"JOBFORGE_DATABASE_URL": url, "JOBFORGE_TENANT": "acme"}


@pytest.fixture
def shell(settings: dict[str, str], tmp_path: Path) -> Terminal:
    return QuickTerminal(tmp_path, **settings)


def test_a_schedule_is_made_shown_changed_and_deleted(shell: Terminal) -> None:
    made = shell.read(
        *("triggers", "create", "Every morning", "-d", "mail", "--cron", "0 9 * * *"),
        *("--tz", "Europe/Berlin", "--overlap", "skip", "--jitter", "5m"),
        *("--starts", "2026-01-01T00:00Z", "to=ada", "at={{schedule.fire_at}}"),
    )
    shown = shell.read_json("triggers", "show", made)
    assert (shown["cron"], shown["zone"], shown["jitter_s"]) == ("0 9 * * *", "Europe/Berlin", 300)
    assert shown["payload"] == {"to": "ada", "at": "{{schedule.fire_at}}"}
    shell.read("triggers", "edit", made, "--cron", "@daily", "--catch-up", "none")
    shell.read("triggers", "disable", made)
    assert shell.read("triggers", "list", "--disabled", "-q") == made
    shell.read("triggers", "enable", made)
    [line] = shell.read_json("triggers", "list", "--type", "schedule")
    assert (line["cron"], line["catch_up"], line["enabled"]) == ("@daily", "none", True)
    assert "Every morning" in shell.read("triggers", "list")
    shell.read("triggers", "delete", made)
    assert shell.read("triggers", "list") == ""


def test_firings_are_asked_for(shell: Terminal) -> None:
    made = shell.read(
        "triggers", "create", "hourly", "-d", "mail", "--cron", "@hourly", "--tz", "UTC"
    )
    day = ("2026-01-01T00:00Z", "2026-01-02T00:00Z")
    assert len(shell.read("triggers", "backfill", made, *day, "--dry-run").splitlines()) == 24
    assert shell.read("triggers", "backfill", made, *day) == "24"
    assert shell.read("triggers", "backfill", made, *day) == "0"
    fire_at = shell.read("triggers", "run", made)
    firings = shell.read_json("triggers", "firings", made)
    assert [firing["kind"] for firing in firings] == ["manual", *["backfill"] * 24]
    asked = datetime.fromisoformat(fire_at) - datetime.fromisoformat(firings[0]["fire_at"])
    assert abs(asked) < timedelta(milliseconds=1)  # of which JSON has no more digits


def test_the_next_times_of_a_schedule_are_told_without_a_database(tmp_path: Path) -> None:
    shell = QuickTerminal(tmp_path)
    words = ("triggers", "next", "30 2 * * *", "--tz", "America/New_York", "-n", "2")
    told = shell.read(*words, "--after", "2026-03-08T00:00Z").splitlines()
    assert told == ["2026-03-08T03:00:00-04:00  (skipped time)", "2026-03-09T02:30:00-04:00"]
    assert shell.read_json(*words)["words"] == "At 02:30 every day"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["next", "61 * * * *"], "61 does not lie between 0 and 59"),
        (["create", "x", "-d", "mail"], "--cron, or an --event"),
        (["create", "x", "-d", "mail", "--cron", "@daily", "a={{event.b}}"], "event"),
        (["create", "x", "-d", "mail", "--cron", "@daily", "--tz", "Mars/X"], "Mars/X"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(shell: Terminal, words: list[str], told: str) -> None:
    result = shell.run("triggers", *words)
    assert result.returncode == 2
    assert told in result.stderr


def test_the_command_fires_what_is_due_until_it_is_told_to_stop(
    database: Database, conn: Connection, clock: Clock, settings: dict[str, str], folder: Path
) -> None:
    table = Timetable(database, conn, clock)
    made = table.add("0 * * * *", definition="mail")
    table.travel_to_next(made)
    with Terminal(folder, **settings).started("scheduler") as scheduler:
        scheduler.wait_for("scheduler.started")
        wait_until(lambda: len(table.jobs(made)) == 1)
        scheduler.signal(signal.SIGTERM)
        assert scheduler.end() == 0


def test_the_example_makes_a_job_each_minute(
    conn: Connection, clock: Clock, settings: dict[str, str], folder: Path
) -> None:
    shell = QuickTerminal(folder, **settings)
    with Terminal(folder, **settings).started("worker", str(EXAMPLE / "app.py")) as worker:
        worker.wait_for("worker.started")
        clock.travel(minutes=1)
        conn.execute("select jobforge.wake_scheduler()")
        wait_until(lambda: _results(conn) != [])
        dev, *commands = _commands()
        assert dev == ["dev", "examples/schedules/app.py"]
        for words in commands:
            if "$(jobforge" not in " ".join(words):
                shell.read(*words)
    assert _results(conn)[0].startswith("made for 2")


def test_the_python_of_the_page_runs(
    database: Database, conn: Connection, settings: dict[str, str]
) -> None:
    page = ROOT / "docs" / "schedules.md"
    run = subprocess.run(
        [sys.executable, "-W", "error", str(Path(__file__).parent / "examples.py"), str(page)],
        env={**os.environ, **settings, "JOBFORGE_DATABASE_URL": database.url},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    rows = conn.execute("select declared from jobforge.triggers").fetchall()
    assert {row["declared"] for row in rows} == {"morning_report", "clean_up"}


def _commands() -> Iterator[list[str]]:
    text = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    for line in re.findall(r"^\$ jobforge (.*)$", text, re.MULTILINE):
        yield shlex.split(line)


def _results(conn: Connection) -> list[str]:
    rows = conn.execute("select result from jobforge.finished_jobs where state = 'succeeded'")
    return [row["result"] for row in rows]
