"""The variables that the processes of jobs get, and those that they must not.

A worker's own environment holds its connection to the database. A zygote gets what is left without
that, because the app may need it to be imported; a job gets a built one.
"""

import ctypes
import os
from collections.abc import Iterable, Mapping

from jobforge.isolation.tree import LONGEST_MARK, MARK
from jobforge.redact import is_secret_name, register_secret

# In every job's environment, besides HOME, TMPDIR and the job's own names.
_PLAIN = ("PATH", "LANG", "LC_ALL", "TZ")

# Stands in a zygote's environment to keep a place for the mark of each child.
_PLACE = "JOBFORGE_ZYGOTE"

_ROOM = len(_PLACE) + 1 + len(MARK) + 1 + LONGEST_MARK
_MARK_ID = f"{MARK}_ID"

_DEFAULTS = {"PATH": os.defpath, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}

_libc = ctypes.CDLL(None)
_libc.getenv.restype = ctypes.c_void_p
_place: int | None = None


def for_zygote(environment: Mapping[str, str]) -> dict[str, str]:
    """The worker's variables without what leads to the database or to secrets."""
    kept = {name: value for name, value in environment.items() if not _is_confidential(name)}
    return {**kept, _PLACE: "-" * (len(MARK) + 1 + LONGEST_MARK)}


def reduce(let_through: Iterable[str]) -> None:
    """Leaves in this process what all jobs get."""
    names = {*_PLAIN, *let_through}
    kept = {name: value for name, value in os.environ.items() if name in names}
    os.environ.clear()
    os.environ.update({**_DEFAULTS, **kept})
    for name, value in kept.items():
        if is_secret_name(name):
            register_secret(value)


def remember_place() -> None:
    """Finds the place where each child will write its mark."""
    global _place  # noqa: PLW0603 - one per process, and a fork has it too
    address = _libc.getenv(_PLACE.encode())
    # getenv points behind the name and its equals sign.
    _place = address and address - len(_PLACE) - 1


def set_job(folder: str, mark: str) -> None:
    """What differs from job to job, for the child that is about to be forked."""
    os.environ["HOME"] = os.environ["TMPDIR"] = folder
    os.environ[MARK] = mark
    os.environ[_MARK_ID] = mark.partition(".")[0]


def show_mark(mark: bytes) -> None:
    """Makes /proc/<pid>/environ of this fork tell its job.

    That file shows the environment with which the program was started, whatever was changed since;
    so the mark is written there, over the place that was kept for it.
    """
    if _place:
        ctypes.memmove(_place, mark, len(mark))


def written(mark: str) -> bytes:
    """What `show_mark` writes."""
    return f"{MARK}={mark}".encode().ljust(_ROOM, b"\0")


def _is_confidential(name: str) -> bool:
    return name.startswith(("PG", "JOBFORGE_")) and name not in _HARMLESS


_HARMLESS = {"JOBFORGE_LOG_LEVEL", "JOBFORGE_LOG_FORMAT", "JOBFORGE_TENANT"}
