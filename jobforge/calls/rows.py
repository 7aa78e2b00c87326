"""Shared decoders for the rows of calls."""

from collections.abc import Callable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, TypeVar, get_args, get_type_hints
from uuid import UUID

from jobforge.errors import Json
from jobforge.types.events import (
    DeliveryOutcome,
)
from jobforge.types.jobs import (
    Enqueued,
    EnqueueStatus,
    Outcome,
    State,
)
from jobforge.types.workflows import (
    Family,
    Lineage,
    ParentJob,
    WorkflowState,
)

# A row is untyped: its columns are known by position only.
Row = tuple[Any, ...]
Rows = Sequence[Row]
T = TypeVar("T")

# A dict lookup, because calling an enum doubles the time to decode a row, and rows number in the
# thousands.
STATUSES = {status.value: status for status in EnqueueStatus}


def nothing(_: Rows) -> None:
    """Decode the result of a function that returns void."""


def value(rows: Rows) -> Any:  # noqa: ANN401 - the type parameter of the Call types it
    """Return the only column of the only row."""
    return rows[0][0]


def column(rows: Rows) -> list[Any]:
    """Return the only column of all rows."""
    return [row[0] for row in rows]


def enqueued_jobs(rows: Rows) -> list[Enqueued]:
    # The engine returns duplicates first; restore the order of the request.
    ordered = sorted(rows, key=itemgetter(0))
    return [Enqueued(job_id, STATUSES[status]) for _, job_id, status in ordered]


def read_lineage(document: dict[str, Json]) -> Lineage:
    workflow = document["workflow"]
    return Lineage(
        list(map(_read_parent, document["parents"])), workflow and _read_family(workflow)
    )


def make_reader(kind: Callable[..., T]) -> Callable[[dict[str, Json]], T]:
    """Return a function that builds a dataclass from a JSON object and ignores other members."""
    converters = {name: _converter(hint) for name, hint in get_type_hints(kind).items()}

    def read(document: dict[str, Json]) -> T:
        members = ((name, document.get(name), convert) for name, convert in converters.items())
        return kind(
            **{
                name: None if member is None else convert(member)
                for name, member, convert in members
            }
        )

    return read


def _converter(hint: Any) -> Callable[[Json], Json]:  # noqa: ANN401 - any type annotation
    parts = get_args(hint) or (hint,)
    return next((_FROM_JSON[part] for part in parts if part in _FROM_JSON), _as_is)


def _as_is(document: Json) -> Json:
    return document


_FROM_JSON: dict[Any, Callable[[Json], Json]] = {
    UUID: UUID,
    datetime: datetime.fromisoformat,
    State: State,
    Outcome: Outcome,
    DeliveryOutcome: DeliveryOutcome,
    WorkflowState: WorkflowState,
}
_read_parent = make_reader(ParentJob)
_read_family = make_reader(Family)
