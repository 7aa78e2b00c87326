"""The isolation levels, and the choice of the level that a worker uses.

A host permits a level if an empty job can run at it (probe.py).
"""

import os
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jobforge.errors import ConfigError, Json
from jobforge.sdk.loader import parse_target

if TYPE_CHECKING:
    from jobforge.worker.isolation.sandbox import Sandboxes


class IsolationLevel(IntEnum):
    """The isolation levels in ascending order; each includes the previous levels' guarantees."""

    PROCESS = 0  # a separate process and session
    USER = 1  # plus a user ID that no other running job has
    NAMESPACE = 2  # plus PID, mount and IPC namespaces
    STRICT = 3  # plus a cgroup

    @property
    def label(self) -> str:
        return self.name.lower()


LABELS = tuple(level.label for level in IsolationLevel)

# What `auto` uses for root, if the host permits it: the strongest level that slows empty jobs by
# less than 30 %. Without root, `namespace` would hide /tmp from jobs (docs/decisions/0043).
AUTOMATIC = IsolationLevel.USER


class LevelChoice(NamedTuple):
    """The level in use; `lack` is the reason why `auto` did not use a stronger level."""

    level: IsolationLevel
    lack: str | None


def choose_level(wanted: str, lack_of: Callable[[IsolationLevel], str | None]) -> LevelChoice:
    """Return the level for the setting. Raises ConfigError if the host does not permit it.

    `lack_of` returns what the host lacks for a level, or None.
    """
    if wanted != "auto":
        level = IsolationLevel[wanted.upper()]
        lack = lack_of(level)
        if lack is not None:
            raise ConfigError(
                f"isolation_level {wanted} is not available on this host: {lack}",
                field="isolation_level",
                hint="Set isolation_level to auto, or see docs/isolation.md, Levels",
            )
        return LevelChoice(level, None)
    if os.geteuid() != 0:
        return LevelChoice(IsolationLevel.PROCESS, "the worker does not run as root")
    lack = lack_of(AUTOMATIC)
    return LevelChoice(IsolationLevel.PROCESS, lack) if lack else LevelChoice(AUTOMATIC, None)


def set_up_isolation(setup: dict[str, Json]) -> "tuple[Sandboxes | None, LevelChoice]":
    """Choose the level and open its sandboxes.

    Call this before the app is imported: the app may start threads, and a process with several
    threads cannot create a user namespace.
    """
    opened: list[Sandboxes | None] = []
    package_parent = Path(__file__).parents[3]
    file = parse_target(setup["target"]).file
    paths = [str(path) for path in (package_parent, file) if path is not None]

    def lack_of(level: IsolationLevel) -> str | None:
        if level is IsolationLevel.PROCESS:
            return None
        from jobforge.worker.isolation.probe import open_sandboxes  # noqa: PLC0415 - not needed at the level process

        try:
            sandboxes = open_sandboxes(
                level,
                user_range=setup["job_user_range"],
                processes=setup["job_processes"],
                folder=setup["folder"],
                paths=paths,
            )
        except OSError as error:
            return str(error)
        opened.append(sandboxes)
        return None

    chosen = choose_level(setup["isolation_level"], lack_of)
    return opened.pop() if opened else None, chosen
