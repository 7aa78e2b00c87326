"""Converts the server's responses to the rows that the same call returns on a database.

So a call decodes both in the same way. Unknown members, from a newer server, are ignored; members
that an older server does not send are None.
"""

from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any, get_args, get_type_hints
from uuid import UUID

from jobforge.calls.rows import Row, Rows
from jobforge.errors import Json

RowReader = Callable[[Json], Rows]
Converter = Callable[[Json], Any]


def no_rows(_: Json) -> Rows:
    return []


def single_value(name: str, convert: Converter | None = None) -> RowReader:
    """Return a reader for a response with one value."""
    return lambda response: [(_convert(response[name], convert),)]


def record(kind: type) -> RowReader:
    """Return a reader for one object, with the fields of a class as columns."""
    return lambda response: [_row(_columns(kind), response)]


def records(kind: type) -> RowReader:
    """Return a reader for a list of objects, with the fields of a class as columns."""

    def read(response: Json) -> Rows:
        columns = _columns(kind)
        return [_row(columns, item) for item in response["items"]]

    return read


def items(**columns: Converter | None) -> RowReader:
    """Return a reader for a list of objects, with the given columns."""
    pairs = list(columns.items())
    return lambda response: [_row(pairs, item) for item in response["items"]]


def history(response: Json) -> Rows:
    return [(response["job"], response["attempts"], response["events"])]


def created_job(response: Json) -> Rows:
    return [(UUID(response["id"]), response["status"])]


def created_jobs(response: Json) -> Rows:
    indexed = enumerate(response["items"])
    return [(index, UUID(job["id"]), job["status"]) for index, job in indexed]


def created_workflow(response: Json) -> Rows:
    workflow_id = UUID(response["id"])
    jobs = ((each["node"], UUID(each["job_id"])) for each in response["nodes"])
    return [(workflow_id, None, None), *((workflow_id, node, job_id) for node, job_id in jobs)]


def created_batch(response: Json) -> Rows:
    batch_id = UUID(response["id"])
    indexed = enumerate(response["jobs"])
    jobs = ((batch_id, index, UUID(job["id"]), job["status"]) for index, job in indexed)
    return [(batch_id, None, None, None), *jobs]


def workflow(response: Json) -> Rows:
    extra = {name: response[name] for name in ("result", "has_all_nodes")}
    return [(response["workflow"] | extra, response["nodes"], response["edges"])]


def document(response: Json) -> Rows:
    """Return the whole object as one column, for calls that decode it themselves."""
    return [(response,)]


def documents(response: Json) -> Rows:
    return [(item,) for item in response["items"]]


def heartbeat(response: Json) -> Rows:
    beats = [(UUID(beat["job_id"]), beat["lease"], beat["status"]) for beat in response["items"]]
    return [(None, None, response["command"]), *beats]


def _row(columns: list[tuple[str, Converter | None]], item: Json) -> Row:
    return tuple(_convert(item.get(name), convert) for name, convert in columns)


def _convert(value: Json, convert: Converter | None) -> Any:  # noqa: ANN401 - the column's type
    return value if value is None or convert is None else convert(value)


@cache
def _columns(kind: type) -> list[tuple[str, Converter | None]]:
    return [(name, _converter(hint)) for name, hint in get_type_hints(kind).items()]


def _converter(hint: Any) -> Converter | None:  # noqa: ANN401 - any type annotation
    parts = get_args(hint) or (hint,)
    return next((_CONVERTERS[part] for part in parts if part in _CONVERTERS), None)


def _ids(texts: list[str]) -> list[UUID]:
    return list(map(UUID, texts))


_CONVERTERS: dict[Any, Converter] = {
    UUID: UUID,
    list[UUID]: _ids,
    datetime: datetime.fromisoformat,
}
