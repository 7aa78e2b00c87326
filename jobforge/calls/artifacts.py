"""Calls about files beside the database, for workers and servers."""

from collections.abc import Sequence

from jobforge import rows
from jobforge.calls.call import Call


def start_artifact_sweep(*, every_s: float = 3600) -> Call[bool]:
    """Whether it is the caller's turn to sweep."""
    return Call("select jobforge.start_artifact_sweep(%s::float8)", (every_s,), rows.value)


def unused_artifacts(folders: Sequence[str]) -> Call[list[str]]:
    """Those of the folders, `<tenant>/<day>/<id>`, that nobody needs."""
    return Call(
        "select folder from jobforge.unused_artifacts(%s::text[])", (list(folders),), rows.column
    )
