"""The environment variables of zygotes and jobs.

A worker's environment contains its database credentials. A zygote gets the environment without
credentials, because the app may need the other variables when it is imported. A job gets only an
allow-list and its own variables.
"""

import ctypes
import os
from collections.abc import Iterable, Mapping

from jobforge.process.environment import is_withheld
from jobforge.process.hardening import find_start_blocks
from jobforge.redact import is_secret_name, register_secret
from jobforge.worker.isolation.proc import LONGEST_MARK, MARK

# Passed on to every job, in addition to HOME, TMPDIR and the job's marks.
_INHERITED_NAMES = ("PATH", "LANG", "LC_ALL", "TZ")

# A variable in a zygote's environment that reserves memory for the mark of each child.
_MARK_SLOT = "JOBFORGE_ZYGOTE"

_MARK_SLOT_SIZE = len(_MARK_SLOT) + 1 + len(MARK) + 1 + LONGEST_MARK

_DEFAULTS = {"PATH": os.defpath, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}

_libc = ctypes.CDLL(None)
_libc.getenv.restype = ctypes.c_void_p
_mark_slot: "ctypes.Array[ctypes.c_char] | None" = None


def build_zygote_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the worker's variables without credentials, with the slot for marks added."""
    kept = {name: value for name, value in environment.items() if not is_withheld(name)}
    return {**kept, _MARK_SLOT: "-" * (len(MARK) + 1 + LONGEST_MARK)}


def restrict_environment(allowed_names: Iterable[str]) -> None:
    """Reduce this process's environment to the variables that all jobs get."""
    names = {*_INHERITED_NAMES, *allowed_names}
    kept = {name: value for name, value in os.environ.items() if name in names}
    os.environ.clear()
    os.environ.update({**_DEFAULTS, **kept})
    for name, value in kept.items():
        if is_secret_name(name):
            register_secret(value)
    _erase_start_environment()


def find_mark_slot() -> None:
    """Find the memory where each child will write its mark."""
    global _mark_slot  # noqa: PLW0603 - one per process, inherited by forks
    address = _libc.getenv(_MARK_SLOT.encode())
    if address:
        # getenv returns the address after the name and the equals sign.
        _mark_slot = (ctypes.c_char * _MARK_SLOT_SIZE).from_address(address - len(_MARK_SLOT) - 1)


def set_job_variables(folder: str, mark: str) -> None:
    """Set the variables that differ between jobs, in the job's process.

    /proc/<pid>/environ shows the memory of the environment with which the program was started, not
    later changes. So the mark also overwrites the slot that was reserved in that memory.
    """
    if _mark_slot is not None:
        _mark_slot.raw = f"{MARK}={mark}".encode().ljust(_MARK_SLOT_SIZE, b"\0")
    os.environ["HOME"] = os.environ["TMPDIR"] = folder
    os.environ[MARK] = mark
    os.environ[f"{MARK}_ID"] = mark.partition(".")[0]


def _erase_start_environment() -> None:
    """Erase all but the mark slot from /proc/<pid>/environ, which jobs can read."""
    if _mark_slot is None:
        return
    start, end = find_start_blocks().environment
    if start <= ctypes.addressof(_mark_slot) < end:
        kept = _mark_slot.raw
        ctypes.memset(start, 0, end - start)
        _mark_slot.raw = kept
