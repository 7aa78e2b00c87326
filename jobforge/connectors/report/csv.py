"""CSV according to RFC 4180: UTF-8, commas, CRLF."""

import csv
import io
from collections.abc import Iterable, Iterator

from jobforge.connectors.report.escape import escape_formula
from jobforge.connectors.report.table import Table, format_cell
from jobforge.errors import Json

_ROWS_IN_PIECE = 500


def write_csv(table: Table) -> Iterator[bytes]:
    yield _encode_rows([[escape_formula(column.title) for column in table.columns]])
    batch: list[list[str]] = []
    for row in table:
        batch.append([_cell(value) for value in row])
        if len(batch) == _ROWS_IN_PIECE:
            yield _encode_rows(batch)
            batch = []
    yield _encode_rows(batch)


def _cell(value: Json) -> str:
    # A number needs no escaping, even with a minus sign: it cannot be a formula.
    if isinstance(value, int | float):
        return format_cell(value)
    return escape_formula(format_cell(value))


def _encode_rows(rows: Iterable[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()
