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
    return lambda answer: [(_convert(answer[name], convert),)]


def record(kind: type) -> RowReader:
    """Return a reader for one object, with the fields of a class as columns."""
    return lambda answer: [_row(_columns(kind), answer)]


def records(kind: type) -> RowReader:
    """Return a reader for a list of objects, with the fields of a class as columns."""

    def read(answer: Json) -> Rows:
        columns = _columns(kind)
        return [_row(columns, item) for item in answer["items"]]

    return read


def items(**columns: Converter | None) -> RowReader:
    """Return a reader for a list of objects, with the given columns."""
    named = list(columns.items())
    return lambda answer: [_row(named, item) for item in answer["items"]]


def history(answer: Json) -> Rows:
    return [(answer["job"], answer["attempts"], answer["events"])]


def created_job(answer: Json) -> Rows:
    return [(UUID(answer["id"]), answer["status"])]


def created_jobs(answer: Json) -> Rows:
    made = enumerate(answer["items"])
    return [(index, UUID(job["id"]), job["status"]) for index, job in made]


def created_workflow(answer: Json) -> Rows:
    workflow_id = UUID(answer["id"])
    jobs = ((each["node"], UUID(each["job_id"])) for each in answer["nodes"])
    return [(workflow_id, None, None), *((workflow_id, node, job_id) for node, job_id in jobs)]


def created_batch(answer: Json) -> Rows:
    batch_id = UUID(answer["id"])
    made = enumerate(answer["jobs"])
    jobs = ((batch_id, index, UUID(job["id"]), job["status"]) for index, job in made)
    return [(batch_id, None, None, None), *jobs]


def workflow(answer: Json) -> Rows:
    whole = {name: answer[name] for name in ("result", "is_whole")}
    return [(answer["workflow"] | whole, answer["nodes"], answer["edges"])]


def document(answer: Json) -> Rows:
    """Return the whole object as one column, for calls that decode it themselves."""
    return [(answer,)]


def documents(answer: Json) -> Rows:
    return [(item,) for item in answer["items"]]


def heartbeat(answer: Json) -> Rows:
    beats = [(UUID(beat["job_id"]), beat["lease"], beat["status"]) for beat in answer["items"]]
    return [(None, None, answer["command"]), *beats]


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
