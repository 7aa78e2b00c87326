"""The SQL lint reports each kind of violation."""

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
def test_a_violation_is_reported(tmp_path: Path, text: str, fault: str) -> None:
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
def test_correct_sql_passes(tmp_path: Path, text: str) -> None:
    assert _faults(tmp_path, HEAD + text) == []


GUIDE = (
    "-- About.\n--\n--   seen  is seen\n--\n-- Call tree:\n--   seen -> hidden,\n--       other\n"
)


def _guides(folder: Path, guide: str) -> list[str]:
    (folder / "area").mkdir()
    (folder / "area" / "00_README.sql").write_text(guide)
    for name, body in [
        ("jobforge.seen", "jobforge_private.hidden() jobforge_private.other()"),
        ("jobforge_private.hidden", "-- jobforge_private.other()"),
        ("jobforge_private.other", ""),
    ]:
        file = folder / "area" / f"{name.partition('.')[2]}.sql"
        file.write_text(f"{HEAD}create or replace function {name}()\n{body}")
    return list(lint_sql.lint_guides(folder))


@pytest.mark.parametrize(
    ("guide", "fault"),
    [
        (GUIDE + "select 1;", "has more than comments"),
        (GUIDE.replace("seen  is", "hidden  is"), "does not list seen"),
        (GUIDE.replace("seen ->", "hidden ->"), "hidden does not call other"),
        (GUIDE.replace("other", "gone"), "seen does not call gone"),
    ],
)
def test_a_violation_in_a_guide_is_reported(tmp_path: Path, guide: str, fault: str) -> None:
    assert any(fault in found for found in _guides(tmp_path, guide))


def test_a_folder_without_a_guide_is_reported(tmp_path: Path) -> None:
    (tmp_path / "one.sql").write_text(HEAD)
    assert any("has no 00_README.sql" in found for found in lint_sql.lint_guides(tmp_path))


def test_a_correct_guide_passes(tmp_path: Path) -> None:
    assert _guides(tmp_path, GUIDE) == []
