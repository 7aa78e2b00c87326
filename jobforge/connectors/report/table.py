"""A table: its columns, and an iterator of its rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson

from jobforge.errors import Json

ReportRow = Mapping[str, Json]

_MOST_COLUMNS = 200


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


def infer_columns(rows: Sequence[ReportRow]) -> list[Column]:
    """Return a column for each member of these rows, in order of appearance."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [Column(name, name) for name in list(names)[:_MOST_COLUMNS]]


def format_cell(value: Json) -> str:
    """Return the text of a cell; values other than strings and integers are shown as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # orjson rejects integers of more than 64 bits
    return orjson.dumps(value, default=str).decode()
