"""Calls about files in artifact stores, for workers and servers."""

from collections.abc import Sequence
from uuid import UUID

from jobforge.calls.call import Call, build_call
from jobforge.calls.results import NOTHING, column, many, value
from jobforge.types.diagnostics import StoreKind, StoreUser


def start_artifact_sweep(*, every_s: float = 3600) -> Call[bool]:
    """Return whether the caller should sweep: no process has started one within `every_s`."""
    return build_call("start_artifact_sweep", value(bool), every_s=every_s)


def unused_artifacts(folders: Sequence[str]) -> Call[list[str]]:
    """Return the unused folders, of those given as `<tenant>/<day>/<id>`."""
    return build_call("unused_artifacts", column("folder"), folders=list(folders))


def record_artifact_store(
    store_id: UUID | None, kind: StoreKind, *, host: str, pid: int | None, location: str | None
) -> Call[None]:
    """Record that a process uses this store, or none."""
    return build_call(
        "record_artifact_store",
        NOTHING,
        store_id=store_id,
        kind=kind,
        host=host,
        pid=pid,
        location=location,
    )


def list_artifact_stores() -> Call[list[StoreUser]]:
    """List the stores of recently active processes."""
    return build_call("list_artifact_stores", many(StoreUser))
