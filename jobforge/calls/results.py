"""The results of calls: their columns in SQL, and how to read them from rows and from JSON.

A class of results names its columns by its fields. A database driver returns UUIDs and times as
such; in JSON, from the server or from a jsonb column, they are strings. Unknown members of JSON,
from a newer server, are ignored; members that an older server does not send are None.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache, partial
from types import NoneType
from typing import Any, Generic, NamedTuple, TypeVar, get_args, get_origin, get_type_hints
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.jobs import Enqueued, EnqueueStatus

# A row is untyped: its columns are known by position only.
Row = tuple[Any, ...]
Rows = Sequence[Row]
Converter = Callable[[Any], Any]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")


def _refuse_json(_: Json) -> Any:  # noqa: ANN401 - never returns
    raise NotImplementedError("The server does not support this request")


class Result(NamedTuple, Generic[T_co]):
    """The result of a call. Without `columns`, the function returns a single value."""

    columns: str
    from_rows: Callable[[Rows], T_co]
    from_json: Callable[[Json], T_co] = _refuse_json

    def map(self, make: Callable[[T_co], U]) -> "Result[U]":
        """Return a result that is converted by `make`."""
        _, from_rows, from_json = self
        return Result(
            self.columns,
            lambda rows: make(from_rows(rows)),
            lambda response: make(from_json(response)),
        )


def value(kind: Callable[..., T], member: str = "") -> Result[T]:
    """Return the result of a function that returns one value; in JSON, it is this member."""
    from_row, from_json = _converter(kind), _converter(kind, is_json=True)
    return Result(
        "", lambda rows: from_row(rows[0][0]), lambda response: from_json(response[member])
    )


def one(kind: Callable[..., T]) -> Result[T]:
    """Return the result of a function that returns one row."""
    return Result(
        ", ".join(_hints(kind)),
        lambda rows: _row_reader(kind)(rows[0]),
        lambda response: read_document(kind, response),
    )


def optional(kind: Callable[..., T]) -> Result[T | None]:
    """Return the result of a function that returns one row or none."""
    return Result(
        ", ".join(_hints(kind)), lambda rows: _row_reader(kind)(rows[0]) if rows else None
    )


def many(kind: Callable[..., T]) -> Result[list[T]]:
    """Return the result of a function that returns rows; in JSON they are `items`."""
    return Result(
        ", ".join(_hints(kind)),
        lambda rows: list(map(_row_reader(kind), rows)),
        lambda response: [read_document(kind, item) for item in response["items"]],
    )


def tuples(read: Callable[[Rows], T], **columns: Callable[..., Any]) -> Result[T]:
    """Return the result of a function whose rows, or `items` in JSON, are read as tuples."""

    def from_json(response: Json) -> T:
        converters = [(name, _converter(kind, is_json=True)) for name, kind in columns.items()]
        return read(
            [
                tuple(convert(item.get(name)) for name, convert in converters)
                for item in response["items"]
            ]
        )

    return Result(", ".join(columns), read, from_json)


def json_columns(read: Callable[[dict[str, Json]], T], *columns: str) -> Result[T]:
    """Return the result of a function that returns one row of JSON; `read` takes its columns."""
    return Result(
        ", ".join(columns), lambda rows: read(dict(zip(columns, rows[0], strict=True))), read
    )


def document(kind: Callable[..., T], column: str) -> Result[T]:
    """Return the result of a function that returns one JSON object."""
    return Result(
        column,
        lambda rows: read_document(kind, rows[0][0]),
        lambda response: read_document(kind, response),
    )


def documents(kind: Callable[..., T], column: str) -> Result[list[T]]:
    """Return the result of a function that returns JSON objects, one in each row."""
    return Result(
        column,
        lambda rows: [read_document(kind, row[0]) for row in rows],
        lambda response: [read_document(kind, item) for item in response["items"]],
    )


def column(name: str) -> Result[list[Any]]:
    """Return the result of a function that returns one column."""
    return Result(name, lambda rows: [row[0] for row in rows])


def read_document(kind: Callable[..., T], document: Mapping[str, Json]) -> T:
    """Build an object of a class from a JSON object; ignore other members."""
    return kind(
        **{name: convert(document.get(name)) for name, convert in _document_converters(kind)}
    )


# A dict lookup, because calling an enum doubles the time to decode a row, and rows number in the
# thousands.
STATUSES = {status.value: status for status in EnqueueStatus}


def _enqueued_from_rows(rows: Rows) -> list[Enqueued]:
    # The engine returns duplicates first; restore the order of the request.
    return [Enqueued(job_id, STATUSES[status]) for _, job_id, status in sorted(rows, key=_index)]


def _index(row: Row) -> int:
    index: int = row[0]
    return index


def enqueued_from_json(job: Json) -> Enqueued:
    return Enqueued(UUID(job["id"]), STATUSES[job["status"]])


NOTHING: Result[None] = Result("", lambda _: None, lambda _: None)
ENQUEUED_JOBS: Result[list[Enqueued]] = Result(
    "index, job_id, status",
    _enqueued_from_rows,
    lambda response: list(map(enqueued_from_json, response["items"])),
)


@cache
def _hints(kind: Callable[..., Any]) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _row_reader(kind: Callable[..., Any]) -> Callable[[Row], Any]:
    """Return a function that builds an object from a row whose columns are its fields."""
    hints = _hints(kind).values()
    converters = [
        (index, convert)
        for index, convert in enumerate(_converter(hint) for hint in hints)
        if convert is not _as_is
    ]
    if not converters:
        return lambda row: kind(*row)

    def read(row: Row) -> Any:  # noqa: ANN401 - an object of the class
        values = list(row)
        for index, convert in converters:
            values[index] = convert(values[index])
        return kind(*values)

    return read


@cache
def _document_converters(kind: Callable[..., Any]) -> list[tuple[str, Converter]]:
    return [(name, _converter(hint, is_json=True)) for name, hint in _hints(kind).items()]


@cache
def _converter(hint: Any, *, is_json: bool = False) -> Converter:  # noqa: ANN401 - any type annotation
    """Return the conversion of a column, or of a value in JSON, to the annotated type."""
    options = [part for part in get_args(hint) if part is not NoneType]
    if get_origin(hint) is list:
        each = _converter(options[0], is_json=is_json)
        return _as_is if each is _as_is else _unless_none(lambda items: list(map(each, items)))
    if len(options) == 1:  # such as UUID | None
        return _converter(options[0], is_json=is_json)
    if is_json and hint in _FROM_JSON:
        return _unless_none(_FROM_JSON[hint])
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _unless_none({member.value: member for member in hint}.__getitem__)
    if is_dataclass(hint) or hasattr(hint, "_fields"):  # a dataclass or a NamedTuple
        return _unless_none(partial(read_document, hint))
    return _unless_none(tuple) if get_origin(hint) is tuple else _as_is


def _as_is(given: Json) -> Json:
    return given


def _unless_none(convert: Converter) -> Converter:
    return lambda given: None if given is None else convert(given)


_FROM_JSON: Mapping[Any, Converter] = {UUID: UUID, datetime: datetime.fromisoformat}
