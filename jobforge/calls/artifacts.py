"""Calls about files in artifact stores, for workers and servers."""

from collections.abc import Sequence
from uuid import UUID

from jobforge.calls import rows
from jobforge.calls.call import Call
from jobforge.types.health import StoreKind, StoreUser


def start_artifact_sweep(*, every_s: float = 3600) -> Call[bool]:
    """Return whether the caller should sweep: no process has started one within `every_s`."""
    return Call("select jobforge.start_artifact_sweep(%s::float8)", (every_s,), rows.value)


def unused_artifacts(folders: Sequence[str]) -> Call[list[str]]:
    """Return the unused folders, of those given as `<tenant>/<day>/<id>`."""
    return Call(
        "select folder from jobforge.unused_artifacts(%s::text[])", (list(folders),), rows.column
    )


def record_artifact_store(
    store_id: UUID | None, kind: StoreKind, *, host: str, pid: int | None, location: str | None
) -> Call[None]:
    """Record that a process uses this store, or none."""
    return Call(
        "select jobforge.record_artifact_store(%s, %s, %s, %s::integer, %s)",
        (store_id, kind, host, pid, location),
        rows.nothing,
    )


def list_artifact_stores() -> Call[list[StoreUser]]:
    """List the stores of recently active processes."""
    return Call(
        """
        select store_id, kind, host, pid, location, seen_at
          from jobforge.list_artifact_stores()
        """,
        (),
        lambda found: list(map(StoreUser._make, found)),
    )
