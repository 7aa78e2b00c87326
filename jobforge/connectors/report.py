"""Reports: a table of rows, and its formats CSV, HTML and JSON.

Pure functions: they take rows and yield chunks of bytes, so a report is never in memory as a whole.
Rows may have untrusted text. A spreadsheet evaluates a cell that looks like a formula, text with a
right-to-left override reads differently from what it is, and control characters can do more.
"""

import base64
import csv
import hashlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import islice

import orjson

from jobforge.errors import Json

ReportRow = Mapping[str, Json]

_MOST_COLUMNS = 200
_ROWS_IN_BATCH = 500
# Characters that begin a formula in a spreadsheet, including their full-width forms.
_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
# Characters that a program may skip before the formula: blanks and zero-width characters.
_SKIPPED = " \v\f\xa0\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2060\ufeff\0"
# Controls except tab and line feed, direction marks and overrides, line separators, surrogates.
_INVISIBLE = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_STYLE = (
    "body{font:14px/1.5 system-ui,sans-serif;margin:2rem;color:#1a1a1a;background:#fff}"
    "table{border-collapse:collapse}th,td{border:1px solid #ccc;padding:.3rem .6rem;"
    "text-align:start;vertical-align:top;white-space:pre-wrap}th{background:#f3f3f3}"
)
_DIGEST = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True, slots=True)
class Column:
    """A column; `field` is a member of the row, or a path such as `customer.name`."""

    field: str
    title: str

    def read_value(self, row: ReportRow) -> Json:
        if self.field in row:
            return row[self.field]
        found: Json = row
        for name in self.field.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


@dataclass(slots=True)
class Table:
    """`rows` can be iterated once; `count` counts them in the process."""

    columns: Sequence[Column]
    rows: Iterator[ReportRow]
    title: str | None = None
    max_rows: int | None = None
    count: int = 0
    is_truncated: bool = False

    def __iter__(self) -> Iterator[list[Json]]:
        for row in self.rows:
            if self.count == self.max_rows:
                self.is_truncated = True
                return
            self.count += 1
            yield [column.read_value(row) for column in self.columns]

    def batches(self) -> Iterator[list[list[Json]]]:
        """Iterate over the rows in lists that are written at once."""
        rows = iter(self)
        while batch := list(islice(rows, _ROWS_IN_BATCH)):
            yield batch


def infer_columns(rows: Sequence[ReportRow]) -> list[Column]:
    """Return a column for each member of these rows, in order of appearance."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [Column(name, name) for name in list(names)[:_MOST_COLUMNS]]


def write_csv(table: Table) -> Iterator[bytes]:
    """Write CSV according to RFC 4180: UTF-8, commas, CRLF."""
    yield _csv_rows([[_escape_formula(column.title) for column in table.columns]])
    for rows in table.batches():
        yield _csv_rows([[_csv_cell(value) for value in row] for row in rows])


def write_html(table: Table) -> Iterator[bytes]:
    """Write one table with nothing active: no script, no external resource, all text escaped."""
    title = _escape_html(table.title or "Report")
    yield (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n<h1>{title}</h1>\n<table>\n<thead><tr>{_headings(table)}</tr></thead>\n<tbody>\n"
    ).encode()
    for rows in table.batches():
        yield "".join(f"<tr>{''.join(map(_html_cell, row))}</tr>\n" for row in rows).encode()
    note = f"<p>The first {table.count:,} rows; there are more.</p>\n" if table.is_truncated else ""
    yield f"</tbody>\n</table>\n{note}</body>\n</html>\n".encode()


def write_json(table: Table) -> Iterator[bytes]:
    """Write unchanged values with one row per line, so that readers can go line by line."""
    names = [column.title for column in table.columns]
    yield b'{"title": %b, "columns": %b, "rows": [' % (_json(table.title), _json(names))
    separator = b"\n"
    for rows in table.batches():
        yield separator
        yield b",\n".join(_json(dict(zip(names, row, strict=True))) for row in rows)
        separator = b",\n"
    yield b"\n]}\n"


def _format_cell(value: Json) -> str:
    """Return the text of a cell; values other than strings and integers are shown as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # orjson rejects integers of more than 64 bits
    return orjson.dumps(value, default=str).decode()


def _csv_cell(value: Json) -> str:
    # A number needs no escaping, even with a minus sign: it cannot be a formula.
    if isinstance(value, int | float):
        return _format_cell(value)
    return _escape_formula(_format_cell(value))


def _csv_rows(rows: Iterable[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()


def _headings(table: Table) -> str:
    return "".join(f'<th scope="col">{_escape_html(column.title)}</th>' for column in table.columns)


def _html_cell(value: Json) -> str:
    return f'<td dir="auto">{_escape_html(_format_cell(value))}</td>'


def _escape_html(text: str) -> str:
    return escape(_escape_invisible(text))


def _json(value: Json) -> bytes:
    return orjson.dumps(value, default=str)


def _escape_invisible(text: str) -> str:
    r"""Normalize line ends to \n; write other invisible characters as escapes such as \u202e."""
    return _INVISIBLE.sub(_escape_character, text.replace("\r\n", "\n").replace("\r", "\n"))


def _escape_formula(text: str) -> str:
    """Escape a cell; put an apostrophe before one that a spreadsheet would evaluate."""
    if text.lstrip(_SKIPPED).startswith(_FORMULA):
        return f"'{_escape_invisible(text)}"
    return _escape_invisible(text)


def _escape_character(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
