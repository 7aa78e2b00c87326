"""Calls about files in artifact stores, for workers and servers."""

from collections.abc import Sequence
from uuid import UUID

from jobforge.calls.call import Call
from jobforge.calls.results import NOTHING, column, many, value
from jobforge.types.diagnostics import StoreKind, StoreUser


def start_artifact_sweep(*, every_s: float = 3600) -> Call[bool]:
    """Return whether the caller should sweep: no process has started one within `every_s`."""
    return Call("start_artifact_sweep", {"every_s": every_s}, value(bool))


def unused_artifacts(folders: Sequence[str]) -> Call[list[str]]:
    """Return the unused folders, of those given as `<tenant>/<day>/<id>`."""
    return Call("unused_artifacts", {"folders": list(folders)}, column("folder"))


def record_artifact_store(
    store_id: UUID | None, kind: StoreKind, *, host: str, pid: int | None, location: str | None
) -> Call[None]:
    """Record that a process uses this store, or none."""
    return Call(
        "record_artifact_store",
        {"store_id": store_id, "kind": kind, "host": host, "pid": pid, "location": location},
        NOTHING,
    )


def list_artifact_stores() -> Call[list[StoreUser]]:
    """List the stores of recently active processes."""
    return Call("list_artifact_stores", {}, many(StoreUser))
