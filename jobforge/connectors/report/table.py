"""A table: its columns, and rows as they come."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import orjson

from jobforge.errors import Json

Row = Mapping[str, Json]

_MOST_COLUMNS = 200


@dataclass(frozen=True, slots=True)
class Column:
    """`field` is a member of the row, or a path to one: `customer.name`."""

    field: str
    title: str

    def of(self, row: Row) -> Json:
        if self.field in row:
            return row[self.field]
        found: Json = row
        for name in self.field.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found


@dataclass(slots=True)
class Table:
    """`rows` can be gone through once; they are counted as they pass."""

    columns: Sequence[Column]
    rows: Iterator[Row]
    title: str | None = None
    most: int | None = None
    count: int = 0
    is_cut: bool = False

    def __iter__(self) -> Iterator[list[Json]]:
        for row in self.rows:
            if self.count == self.most:
                self.is_cut = True
                return
            self.count += 1
            yield [column.of(row) for column in self.columns]


def columns_of(rows: Sequence[Row]) -> list[Column]:
    """For rows of which nothing else is known: all members that they have, as they come."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [Column(name, name) for name in list(names)[:_MOST_COLUMNS]]


def text_of(value: Json) -> str:
    """What a cell shows; what is no text or number is shown as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # orjson has none of more than 64 bits
    return orjson.dumps(value, default=str).decode()
