"""The variables that the processes of jobs get, and those that they must not.

A worker's own environment holds its connection to the database. A zygote gets what is left without
that, because the app may need it to be imported; a job gets a built one.
"""

import ctypes
import os
import struct
from collections.abc import Iterable, Mapping

from jobforge.process.environment import is_withheld
from jobforge.process.hardening import started_with
from jobforge.redact import is_secret_name, register_secret
from jobforge.worker.isolation.proc import LONGEST_MARK, MARK

# In every job's environment, besides HOME, TMPDIR and the job's own names.
_PLAIN = ("PATH", "LANG", "LC_ALL", "TZ")

# Stands in a zygote's environment to keep a place for the mark of each child.
_PLACE = "JOBFORGE_ZYGOTE"

_ROOM = len(_PLACE) + 1 + len(MARK) + 1 + LONGEST_MARK
_LONGEST_RUN = len(str(2**64))

_DEFAULTS = {"PATH": os.defpath, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}

_HOME, _TMPDIR = b"HOME", b"TMPDIR"
_MARK, _MARK_ID = MARK.encode(), f"{MARK}_ID".encode()

_libc = ctypes.CDLL(None)
_libc.getenv.restype = ctypes.c_void_p
_place: "ctypes.Array[ctypes.c_char] | None" = None


def for_zygote(environment: Mapping[str, str]) -> dict[str, str]:
    """The worker's variables without what leads to the database or to secrets."""
    kept = {name: value for name, value in environment.items() if not is_withheld(name)}
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
    _forget_start()


def remember_place() -> None:
    """Finds the place where each child will write its mark."""
    global _place  # noqa: PLW0603 - one per process, and a fork has it too
    address = _libc.getenv(_PLACE.encode())
    if address:
        # getenv points behind the name and its equals sign.
        _place = (ctypes.c_char * _ROOM).from_address(address - len(_PLACE) - 1)


class JobVariables:
    """What differs from job to job, for the child that is about to be forked.

    The C library has them by putenv, in one buffer that is written anew for each job. Through
    os.environ it would keep every value that there ever was, and search among them.
    """

    def __init__(self, folder: str) -> None:
        """`folder` is the one that has the folders of jobs in it."""
        longest = len(folder.encode()) + 1 + _LONGEST_RUN
        names = {_HOME: longest, _TMPDIR: longest, _MARK: LONGEST_MARK, _MARK_ID: LONGEST_MARK}
        # With an equals sign, and a zero at the end.
        sizes = [len(name) + 1 + size + 1 for name, size in names.items()]
        self._layout = struct.Struct("".join(f"{size}s" for size in sizes))
        self._written = ctypes.create_string_buffer(self._layout.size)
        self._known: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined] # noqa: SLF001 - what a fork reads
        self.set(folder, "")
        address = ctypes.addressof(self._written)
        for size in sizes:
            _libc.putenv(ctypes.c_void_p(address))
            address += size

    def set(self, folder: str, mark: str) -> None:
        home, owner = folder.encode(), mark.encode()
        job_id = owner[: owner.find(b".")]
        known = self._known
        known[_HOME] = known[_TMPDIR] = home
        known[_MARK] = owner
        known[_MARK_ID] = job_id
        self._layout.pack_into(
            *(self._written, 0, b"HOME=" + home, b"TMPDIR=" + home),
            *(_MARK + b"=" + owner, _MARK_ID + b"=" + job_id),
        )


def show_mark(mark: bytes) -> None:
    """Makes /proc/<pid>/environ of this fork tell its job.

    That file shows the environment with which the program was started, whatever was changed since;
    so the mark is written there, over the place that was kept for it.
    """
    if _place is not None:
        _place.raw = mark


def _forget_start() -> None:
    """Leaves nothing but the place in that file: jobs can read it, whatever os.environ has."""
    if _place is None:
        return
    start, end = started_with().environment
    if start <= ctypes.addressof(_place) < end:
        kept = _place.raw
        ctypes.memset(start, 0, end - start)
        _place.raw = kept


def written(mark: str) -> bytes:
    """What `show_mark` writes."""
    return f"{MARK}={mark}".encode().ljust(_ROOM, b"\0")
