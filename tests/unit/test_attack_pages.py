"""The pages with the number of attacks are written by a run of the attack tests, and complete."""

import re
import shutil
from pathlib import Path

import attacks
import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MARK = re.compile(r'mark\.attack\("([^"]+)"\)')


def test_the_page_has_every_area_of_the_attack_tests() -> None:
    """If it fails, run `make attacks`, which writes the page."""
    marked = {
        area
        for file in (ROOT / "tests").rglob("*.py")
        for area in MARK.findall(file.read_text(encoding="utf-8"))
    }
    rows, _ = attacks.read_pages(DOCS)
    assert rows.keys() - {"**Total**"} == marked
    assert all(attempts != "0" for attempts, _ in rows.values())


def test_the_security_model_quotes_the_total_of_the_page() -> None:
    rows, quoted = attacks.read_pages(DOCS)
    assert rows["**Total**"][0] == quoted


def test_a_run_writes_the_table_and_the_total(tmp_path: Path) -> None:
    for page in (attacks.TABLE_PAGE, attacks.TOTAL_PAGE):
        shutil.copy(DOCS / page, tmp_path)
    before = (tmp_path / attacks.TABLE_PAGE).read_text(encoding="utf-8")
    report = attacks.Report()
    report.add("SSRF", 584)
    report.add("XSS", 1999)
    report.add("XSS", 3)
    attacks.write_pages(tmp_path, report)
    rows, quoted = attacks.read_pages(tmp_path)
    assert rows == {
        "SSRF": ("580", "1"),
        "XSS": ("2,000", "2"),
        "**Total**": ("2,500", "3"),
    }
    assert quoted == "2,500"
    after = (tmp_path / attacks.TABLE_PAGE).read_text(encoding="utf-8")
    assert after.partition(attacks.HEADER)[0] == before.partition(attacks.HEADER)[0]
    assert after.rpartition("\n\n")[2] == before.rpartition("\n\n")[2]


@pytest.mark.parametrize(
    ("count", "shown"), [(0, "0"), (7, "7"), (99, "99"), (101, "100"), (12_999, "12,000")]
)
def test_a_published_count_is_a_lower_bound_of_two_digits(count: int, shown: str) -> None:
    report = attacks.Report()
    report.add("SSRF", count)
    assert report.total == shown
