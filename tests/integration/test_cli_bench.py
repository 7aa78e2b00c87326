"""`jobforge bench`: it measures, and leaves nothing behind however it ends."""

import re
import signal
from pathlib import Path

import pytest
from cluster import Connection, Database
from integration.terminal import QuickTerminal, Terminal


@pytest.fixture
def shell(database: Database, tmp_path: Path) -> Terminal:
    return Terminal(tmp_path, JOBFORGE_DATABASE_URL=database.url)


def _is_gone(conn: Connection, said: str) -> bool:
    found = re.search(r"jobforge_bench_[0-9a-f]{8}", said)
    assert found, said
    return not conn.execute("select from pg_database where datname = %s", [found[0]]).fetchall()


def test_every_figure_is_measured_and_the_database_dropped(
    shell: Terminal, conn: Connection
) -> None:
    words = ("bench", "--jobs", "50", "--workers", "1", "--tenants", "3")
    result = shell.run(*words)
    assert result.returncode == 0, result.stderr
    figures = dict(line.split() for line in result.stdout.splitlines())
    assert (figures["jobs"], figures["workers"], figures["tenants"]) == ("50", "1", "3")
    measured = [float(value) for name, value in figures.items() if name.endswith(("_s", "_ms"))]
    assert len(measured) == 5
    assert all(value > 0 for value in measured)
    assert _is_gone(conn, result.stderr)
    assert set(shell.read_json(*words)) == set(figures)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_bench_drops_its_database(
    shell: Terminal, conn: Connection, number: signal.Signals
) -> None:
    with shell.started("bench", "--jobs", "1000000") as program:
        program.wait_for("Starting workers")
        program.signal(number)
        # To a shell these are the same; Python ends by the signal that came during an import.
        assert program.end() in {130, -signal.SIGINT}, program.said
    assert _is_gone(conn, program.said)


def test_a_login_that_may_not_create_databases_is_told_what_it_needs(
    database: Database, tmp_path: Path
) -> None:
    shell = QuickTerminal(tmp_path, JOBFORGE_DATABASE_URL=database.url_as("admin_login"))
    refused = shell.run("bench")
    assert refused.returncode == 4
    assert 'alter role "admin_login" createdb' in refused.stderr
