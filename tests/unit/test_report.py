"""Reports of hostile rows are safe for the programs that open them."""

import csv
import io
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest
from attacks import Attempts

from jobforge.connectors.report import (
    Column,
    ReportRow,
    Table,
    infer_columns,
    write_csv,
    write_html,
    write_json,
)

FORMULAS = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-1+1",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "  =1",
    "\ufeff=1",
    "\u200b@x",
    "\uff1d1+1",
    "\0=1",
]
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style><script>1</script>",
    "<!--",
    "&lt;b&gt;",
    "javascript:alert(1)",
    "invoice\u202exslx.exe",
    "\u2067a\u2069",
    "bell\x07 and \x1b[31mred",
    "c1\x85\x9b31m",
    'a "quoted", cell\r\nof two lines',
    *FORMULAS,
]


def _table(rows: list[ReportRow], **options: Any) -> Table:
    return Table(infer_columns(rows), iter(rows), **options)


def _cells(rows: list[ReportRow]) -> list[list[str]]:
    text = b"".join(write_csv(_table(rows))).decode()
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.attack("reports")
@pytest.mark.parametrize("formula", FORMULAS)
def test_no_cell_of_csv_begins_like_a_formula(formula: str) -> None:
    headings, row = _cells([{formula: formula}])
    for cell in (*headings, *row):
        assert cell.startswith("'")


def test_numbers_stay_numbers_and_strings_stay_strings() -> None:
    row = {"n": -5, "f": -0.5, "t": "a - b", "none": None, "flag": True, "list": [1, "=x"]}
    assert _cells([row])[1] == ["-5", "-0.5", "a - b", "", "true", '[1,"=x"]']
    assert _cells([{"long": 10**30}])[1] == ["1" + "0" * 30]


@pytest.mark.attack("reports")
@pytest.mark.parametrize("text", HOSTILE)
def test_invisible_characters_are_escaped(text: str) -> None:
    written = b"".join(write_csv(_table([{"a": text}]))).decode()
    page = b"".join(write_html(_table([{"a": text}], title=text))).decode()
    for shown in (written.replace("\r\n", ""), page):
        assert not re.search(
            "[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]", shown
        )
    if "\u202e" in text:
        assert r"\u202e" in page


class _Seen(HTMLParser):
    """The elements, attributes and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.attack("reports")
def test_a_page_has_no_element_from_a_cell(attempts: Attempts) -> None:
    attempts(len(HOSTILE))
    rows: list[ReportRow] = [{text: text, "n": 1} for text in HOSTILE]
    page = b"".join(write_html(_table(rows, title="<script>alert(1)</script>"))).decode()
    seen = _Seen(page)
    assert set(seen.tags) == {
        *("html", "head", "meta", "title", "style", "body", "h1"),
        *("table", "thead", "tr", "th", "tbody", "td"),
    }
    assert seen.attributes == {"lang", "charset", "http-equiv", "content", "name", "scope", "dir"}
    assert seen.tags.count("tr") == len(rows) + 1
    assert "<script>alert(1)</script>" in seen.texts


def test_a_page_forbids_everything_but_its_own_style() -> None:
    page = b"".join(write_html(_table([{"a": 1}]))).decode()
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src &#x27;none&#x27;; style-src &#x27;sha256-")
    assert "unsafe" not in policy


def test_json_keeps_values_unchanged() -> None:
    rows: list[ReportRow] = [{"a": text, "n": number} for number, text in enumerate(HOSTILE)]
    written = json.loads(b"".join(write_json(_table(rows, title="T"))))
    assert written == {"title": "T", "columns": ["a", "n"], "rows": rows}
    assert json.loads(b"".join(write_json(_table([]))))["rows"] == []


def test_columns_can_be_selected_renamed_and_reached_by_a_path() -> None:
    rows: list[ReportRow] = [{"a.b": 1, "a": {"b": 2, "c": {"d": 3}}}, {"a": "none"}]
    columns = [Column("a.b", "First"), Column("a.c.d", "Second"), Column("no", "Third")]
    text = b"".join(write_csv(Table(columns, iter(rows))))
    assert text == b"First,Second,Third\r\n1,3,\r\n,,\r\n"


def test_rows_are_written_one_by_one_up_to_the_maximum() -> None:
    taken = 0

    def rows() -> Iterator[ReportRow]:
        nonlocal taken
        while True:
            taken += 1
            yield {"n": taken}

    for write in (write_csv, write_html, write_json):
        taken = 0
        table = Table([Column("n", "n")], rows(), max_rows=10_000)
        pieces = write(table)
        next(pieces)
        next(pieces)
        assert taken <= 501
        for piece in pieces:
            assert len(piece) < 50_000
        assert (table.count, table.is_truncated, taken) == (10_000, True, 10_001)
