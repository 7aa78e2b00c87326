"""The levels of isolation: which there are, which this host permits, and which one is used.

What the host permits is found out by running an empty job at the level.
"""

import os
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from jobforge.errors import ConfigError


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

# What `auto` uses, if the host permits it: the strongest level that slows empty jobs by less than
# 30 % (docs/decisions/0043).
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
