"""Calls about files beside the database, for workers and servers."""

from collections.abc import Sequence
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.types.diagnostics import StoreKind, StoreUser


def start_artifact_sweep(*, every_s: float = 3600) -> Call[bool]:
    """Whether it is the caller's turn to sweep."""
    return Call("select jobforge.start_artifact_sweep(%s::float8)", (every_s,), rows.value)


def unused_artifacts(folders: Sequence[str]) -> Call[list[str]]:
    """Those of the folders, `<tenant>/<day>/<id>`, that nobody needs."""
    return Call(
        "select folder from jobforge.unused_artifacts(%s::text[])", (list(folders),), rows.column
    )


def record_artifact_store(
    store_id: UUID | None, kind: StoreKind, *, host: str, pid: int | None, location: str | None
) -> Call[None]:
    """That a process uses this store, or none."""
    return Call(
        "select jobforge.record_artifact_store(%s, %s, %s, %s::integer, %s)",
        (store_id, kind, host, pid, location),
        rows.nothing,
    )


def list_artifact_stores() -> Call[list[StoreUser]]:
    """The stores of processes that were seen lately."""
    return Call(
        """
        select store_id, kind, host, pid, location, seen_at
          from jobforge.list_artifact_stores()
        """,
        (),
        lambda found: list(map(StoreUser._make, found)),
    )
