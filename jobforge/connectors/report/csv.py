"""CSV as RFC 4180 has it: UTF-8, commas, CRLF."""

import csv
import io
from collections.abc import Iterable, Iterator

from jobforge.connectors.report.escape import no_formula
from jobforge.connectors.report.table import Table, text_of
from jobforge.errors import Json

_ROWS_IN_PIECE = 500


def write_csv(table: Table) -> Iterator[bytes]:
    yield _written([[no_formula(column.title) for column in table.columns]])
    gathered: list[list[str]] = []
    for row in table:
        gathered.append([_cell(value) for value in row])
        if len(gathered) == _ROWS_IN_PIECE:
            yield _written(gathered)
            gathered = []
    yield _written(gathered)


def _cell(value: Json) -> str:
    # A number is what it is, also below zero: no formula can hide in one.
    if isinstance(value, int | float):
        return text_of(value)
    return no_formula(text_of(value))


def _written(rows: Iterable[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(rows)
    return text.getvalue().encode()
