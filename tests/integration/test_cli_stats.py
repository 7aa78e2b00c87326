"""`jobforge stats` against a database."""

from pathlib import Path
from uuid import UUID, uuid4

import pytest
from cluster import Connection, Database
from integration.terminal import QuickTerminal, Terminal

from jobforge import calls, db

ACME = uuid4()


@pytest.fixture
def shell(database: Database, conn: Connection, tmp_path: Path) -> Terminal:
    db.run(conn, calls.put_tenant(ACME, {"slug": "acme"}))
    for tenant, definition in ((ACME, "mail"), (ACME, "report"), (uuid4(), "mail")):
        _add(conn, tenant, definition)
    return QuickTerminal(tmp_path, JOBFORGE_DATABASE_URL=database.url_as("admin_login"))


def _add(conn: Connection, tenant_id: UUID, definition: str) -> None:
    """One attempt that ended half an hour ago, as a roll-up leaves it."""
    conn.execute(
        """
        insert into jobforge.minute_statistics
        select %s, date_bin('1 minute', now() - interval '30 minutes', 'epoch'), 1, 0, 0, 0, 0,
               100, 3000, 1500, 4096, %s, 'default', h, h
          from (select array_fill(0, array[10]) || 1 || array_fill(0, array[21])) as g(h)
        """,
        [tenant_id, definition],
    )


def test_statistics_are_shown_for_a_tenant_or_for_all_and_by_definition(shell: Terminal) -> None:
    [all_of_them] = shell.read_json("stats")
    assert (all_of_them["attempts"], all_of_them["definition"]) == (3, None)
    by_definition = shell.read_json("stats", "--tenant", "acme", "--by", "definition")
    assert [each["definition"] for each in by_definition] == ["mail", "report"]
    line = shell.read("stats", "--tenant", "acme", "--since", "1h", "--queue", "default")
    assert line.rstrip("\n").split("\t")[2:] == ["2", "0", "0", "0", "0", *["640 ms", "896 ms"] * 2]
    assert shell.read("stats", "--since", "10m") == ""


def test_usage_is_shown_and_printed_as_csv(shell: Terminal) -> None:
    used = {each["slug"]: each for each in shell.read_json("stats", "usage")}
    assert (used["acme"]["attempts"], used["acme"]["run_s"]) == (2, 6)
    header, *lines = shell.read("stats", "usage", "--csv").splitlines()
    assert header == "tenant_id,slug,attempts,run_s,cpu_s,peak_memory_bytes"
    assert f"{ACME},acme,2,6.0,3.0,4096" in lines


@pytest.mark.parametrize(
    "words", [["--by", "queue"], ["--since", "soon"], ["--step", "59"], ["--until", "2026-99-01"]]
)
def test_what_cannot_be_answered_is_wrong_use(shell: Terminal, words: list[str]) -> None:
    assert shell.run("stats", *words).returncode == 2
