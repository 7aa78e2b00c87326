"""The SQL lint finds what it is for."""

from pathlib import Path

import lint_sql
import pytest

HEAD = "-- Does something.\n"
WORDS = "'" + "word " * 20 + "'"
DEFINER = "create function f() returns int language sql security definer\n{} as 'select 1';"


def _faults(folder: Path, text: str) -> list[str]:
    path = folder / "file.sql"
    path.write_text(text)
    return list(lint_sql.lint(path))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("select 1;", "opens with no comment"),
        (HEAD + "select " + "1".rjust(93) + ";", "2: is longer than 100 characters"),
        (HEAD + f"select {WORDS};", "2: is longer than 100 characters"),
        (HEAD + f"select\n    {WORDS} as words;", "3: is longer than 100 characters"),
        ("-- Does" + " something" * 10 + ".\nselect 1;", "1: is longer than 100 characters"),
        (HEAD + "SELECT 1;", "2: starts with an upper-case word"),
        (HEAD + "selec 1;", "does not parse"),
        (HEAD + DEFINER.format(""), "without a pinned search_path"),
        (HEAD + "update jobforge.jobs set queue = 'x' where id = 1;", "without comparing"),
        (HEAD + "delete from jobforge.jobs where id = 1 returning state;", "without comparing"),
        (HEAD + "delete from jobforge.jobs;", "without comparing"),
    ],
)
def test_a_fault_is_reported(tmp_path: Path, text: str, fault: str) -> None:
    assert any(fault in found for found in _faults(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "select 1;",
        "select " + "1".rjust(92) + ";",
        f"select\n    {WORDS};",
        DEFINER.format("set search_path = pg_catalog, pg_temp"),
        "update jobforge.jobs as j set queue = 'x' where j.id = 1 and j.lease = 2;",
        "with gone as (delete from jobforge.jobs where state = 'dead' returning id)\nselect 1;",
        "-- lint: nobody else can see the rows yet\nupdate jobforge.jobs set queue = 'x';",
        "update jobforge.tenants set name = 'x';",
    ],
)
def test_good_sql_passes(tmp_path: Path, text: str) -> None:
    assert _faults(tmp_path, HEAD + text) == []
