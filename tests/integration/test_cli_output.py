"""Output of commands on a terminal, and the help of each command."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from attacks import Attempts
from cluster import Connection, Database, wait_until
from integration.terminal import COMMANDS, InProcessTerminal, Terminal, environment

from jobforge import calls, db
from jobforge.cli.output import clean, format_cell, format_duration


def _paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, child in getattr(command, "commands", {}).items():
        yield from _paths(child, (*path, name))


def test_every_command_has_a_description(tmp_path: Path) -> None:
    shell = InProcessTerminal(tmp_path)
    for path in _paths(COMMANDS):
        usage, purpose, *_ = shell.read(*path, "--help").split("\n\n")
        assert usage.startswith("Usage:"), path
        assert purpose.strip().endswith("."), path


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0.0 s"),
        (0.21, "0.2 s"),
        (41, "41 s"),
        (119, "119 s"),
        (180, "3 m"),
        (7200, "2 h"),
        (200_000, "2 d"),
    ],
)
def test_durations_have_about_two_digits(seconds: float, words: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == words


@pytest.mark.attack("terminal escapes")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("höhe ✓", "höhe ✓"),
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("a\r\nb\tc", "a\\r\\nb\\tc"),
        ("\x00\x7f\x9b", "\\x00\\x7f\\x9b"),
        ("right\u202eto left", "right\\u202eto left"),
    ],
)
def test_control_characters_are_made_visible(text: str, shown: str, attempts: Attempts) -> None:
    attempts(int(text != shown))
    assert clean(text) == shown


@pytest.mark.attack("terminal escapes")
def test_control_characters_within_structures_are_made_visible_and_stay_json() -> None:
    said = {"name": "a\x1b[31m\x9b31m\u202eb", "high": "höhe"}
    shown = format_cell(said)
    assert clean(shown) == shown
    assert "höhe" in shown
    assert json.loads(shown) == said


def test_characters_that_the_locale_lacks_are_printed_as_code_points(url: str) -> None:
    said = subprocess.run(
        [sys.executable, "-m", "jobforge", "doctor"],
        capture_output=True,
        env=environment(JOBFORGE_DATABASE_URL=url, PYTHONIOENCODING="latin-1"),
        check=False,  # a database of the tests is not durable
    )
    assert said.stdout.startswith(b"\\u2713 server")


@pytest.fixture
def url(database: Database, conn: Connection) -> str:
    db.run(conn, calls.put_tenant(uuid4(), {"slug": "acme"}))
    db.run(conn, calls.put_definition("mail", 1))
    return database.url


def test_a_list_on_a_terminal_is_a_table_with_relative_times(url: str, tmp_path: Path) -> None:
    shell = Terminal(tmp_path, JOBFORGE_DATABASE_URL=url, JOBFORGE_TENANT="acme")
    job_id = shell.read("enqueue", "mail")
    title, line = _on_a_terminal("jobs", "list", JOBFORGE_DATABASE_URL=url, JOBFORGE_TENANT="acme")
    assert title.split()[:3] == ["ID", "STATE", "DEFINITION"]
    assert line.split()[:3] == [job_id, "queued", "mail@1"]
    assert " ago" in line


def _on_a_terminal(*arguments: str, **variables: str) -> list[str]:
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, "-m", "jobforge", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(**variables),
        ) as process:
            # Before this process closes its copy of the other end, so that no output is lost.
            assert process.wait(timeout=60) == 0
        return os.read(ours, 65_536).decode().splitlines()
    finally:
        os.close(ours)
        os.close(theirs)


def test_an_interrupted_wait_is_exit_code_130(url: str, conn: Connection, tmp_path: Path) -> None:
    asked = """
        select from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid() and state = 'idle'
           and query like '%jobforge.get_job(%'
    """
    shell = Terminal(tmp_path, JOBFORGE_DATABASE_URL=url, JOBFORGE_TENANT="acme")
    with shell.start("enqueue", "mail", "--wait") as waiting:
        waiting.wait_for(" created")
        wait_until(lambda: conn.execute(asked).rowcount == 1)  # it has read the job once, and waits
        waiting.signal(signal.SIGINT)
        assert waiting.wait_for_exit() == 130
    assert "Traceback" not in waiting.output
