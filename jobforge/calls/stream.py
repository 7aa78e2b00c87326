"""Calls of servers for the live stream, and for a worker's registration."""

from collections.abc import Sequence
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.calls.rows import Rows
from jobforge.types.live_stream import Happening, QueueCount, StreamPage


def read_stream(
    after: str | None = None, *, limit: int = 1000, tenant_id: UUID | None = None
) -> Call[StreamPage]:
    """Read at most `limit` rows. Without `after`, return only the stream's current position."""
    return Call(
        """
        select place, tenant_id, kind, name, job_id, definition, queue, state, attempt, at, actor,
               data
          from jobforge.read_stream(%s, %s::integer, %s)
        """,
        (after, limit, tenant_id),
        _stream_page,
    )


def count_states(tenants: Sequence[UUID]) -> Call[list[QueueCount]]:
    return Call(
        """
        select tenant_id, queue, state, jobs, oldest_queued_at, is_exact
          from jobforge.count_states(%s::uuid[])
        """,
        (list(tenants),),
        _queue_counts,
    )


def find_worker(worker_id: UUID, owner: str) -> Call[None]:
    """Raise NotFound unless `owner` registered the worker for the call's tenant."""
    return Call("select jobforge.find_worker(%s, %s)", (worker_id, owner), rows.nothing)


def _stream_page(rows: Rows) -> StreamPage:
    # The last row, of kind `mark`, has the position up to which everything was read.
    *happened, (position, *_, found) = rows
    return StreamPage(list(map(Happening._make, happened)), position, found["is_complete"])


def _queue_counts(rows: Rows) -> list[QueueCount]:
    return list(map(QueueCount._make, rows))
