"""Calls of servers for the live stream, and for a worker's registration."""

from collections.abc import Sequence
from uuid import UUID

from jobforge.calls.call import Call, build_call
from jobforge.calls.results import NOTHING, Result, Rows, many
from jobforge.types.live_stream import Happening, QueueCount, StreamPage


def read_stream(
    after: str | None = None, *, limit: int = 1000, tenant_id: UUID | None = None
) -> Call[StreamPage]:
    """Read at most `limit` rows. Without `after`, return only the stream's current position."""
    return build_call("read_stream", _STREAM_PAGE, after=after, limit=limit, tenant_id=tenant_id)


def count_states(tenants: Sequence[UUID]) -> Call[list[QueueCount]]:
    return build_call("count_states", many(QueueCount), tenants=list(tenants))


def find_worker(worker_id: UUID, owner: str) -> Call[None]:
    """Raise NotFound unless `owner` registered the worker for the call's tenant."""
    return build_call("find_worker", NOTHING, worker_id=worker_id, owner=owner)


def _stream_page(rows: Rows) -> StreamPage:
    # The last row, of kind `mark`, has the position up to which everything was read.
    *happened, (position, *_, found) = rows
    return StreamPage(list(map(Happening._make, happened)), position, found["is_complete"])


_STREAM_PAGE = Result(
    "place, tenant_id, kind, name, job_id, definition, queue, state, attempt, at, actor, data",
    _stream_page,
)
