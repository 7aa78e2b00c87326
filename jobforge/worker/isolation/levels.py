"""The levels of isolation: which there are, which this host permits, and which one is used.

What the host permits is found out by running an empty job at the level.
"""

import os
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from jobforge.errors import ConfigError, Json
from jobforge.sdk.loader import parse

if TYPE_CHECKING:
    from jobforge.worker.isolation.sandbox import Sandboxes


class Level(IntEnum):
    """Each includes what the levels before it guarantee."""

    PROCESS = 0  # a process and a session
    USER = 1  # a user ID that no other running job has
    NAMESPACE = 2  # PID, mount and IPC namespaces
    STRICT = 3  # a cgroup

    @property
    def label(self) -> str:
        return self.name.lower()


LABELS = tuple(level.label for level in Level)

# What `auto` uses for root, if the host permits it: the strongest level that slows empty jobs by
# less than 30 %. Without root, `namespace` would hide /tmp from jobs (docs/decisions/0043).
AUTOMATIC = Level.USER


class Chosen(NamedTuple):
    """The level in use; `lack` says why `auto` did not use a stronger one."""

    level: Level
    lack: str | None


def choose(wanted: str, lack_of: Callable[[Level], str | None]) -> Chosen:
    """`lack_of` returns what the host lacks for a level, or None."""
    if wanted != "auto":
        level = Level[wanted.upper()]
        lack = lack_of(level)
        if lack is not None:
            raise ConfigError(
                f"isolation_level {wanted} is not possible on this host: {lack}",
                field="isolation_level",
                hint="see docs/isolation.md, Levels, or set isolation_level to auto",
            )
        return Chosen(level, None)
    if os.geteuid() != 0:
        return Chosen(Level.PROCESS, "the worker does not run as root")
    lack = lack_of(AUTOMATIC)
    return Chosen(Level.PROCESS, lack) if lack else Chosen(AUTOMATIC, None)


def confine(setup: dict[str, Json]) -> "tuple[Sandboxes | None, Chosen]":
    """Before the app is imported: it may start threads, and then there is no user namespace."""
    opened: list[Sandboxes | None] = []
    own = Path(__file__).parents[3]
    file = parse(setup["target"]).file
    paths = [str(path) for path in (own, file) if path is not None]

    def lack_of(level: Level) -> str | None:
        if level is Level.PROCESS:
            return None
        from jobforge.worker.isolation.probe import open_sandboxes  # noqa: PLC0415 - few zygotes need it

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

    chosen = choose(setup["isolation_level"], lack_of)
    return opened.pop() if opened else None, chosen
