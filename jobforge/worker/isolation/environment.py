"""The environment variables of zygotes and jobs.

A worker's environment contains its database credentials. A zygote gets the environment without
credentials, because the app may need the other variables when it is imported. A job gets only an
allow-list and its own variables.
"""

import ctypes
import os
import struct
from collections.abc import Iterable, Mapping

from jobforge.process.environment import is_withheld, select_variables
from jobforge.process.hardening import find_start_blocks
from jobforge.redact import is_secret_name, register_secret
from jobforge.worker.isolation.proc import LONGEST_MARK, MARK

# Passed on to every job, in addition to HOME, TMPDIR and the job's marks.
_INHERITED_NAMES = ("PATH", "LANG", "LC_ALL", "TZ")

# A variable in a zygote's environment that reserves memory for the mark of each child.
_MARK_SLOT = "JOBFORGE_ZYGOTE"

_MARK_SLOT_SIZE = len(_MARK_SLOT) + 1 + len(MARK) + 1 + LONGEST_MARK
_LONGEST_RUN = len(str(2**64))

_DEFAULTS = {"PATH": os.defpath, "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "TZ": "UTC"}

_HOME, _TMPDIR = b"HOME", b"TMPDIR"
_MARK, _MARK_ID = MARK.encode(), f"{MARK}_ID".encode()

_libc = ctypes.CDLL(None)
_libc.getenv.restype = ctypes.c_void_p
_mark_slot: "ctypes.Array[ctypes.c_char] | None" = None


def build_zygote_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the worker's variables without credentials, with the slot for marks added."""
    kept = {name: value for name, value in environment.items() if not is_withheld(name)}
    return {**kept, _MARK_SLOT: "-" * (len(MARK) + 1 + LONGEST_MARK)}


def restrict_environment(allowed: Iterable[str]) -> None:
    """Reduce this process's environment to the variables that all jobs get.

    `allowed` has names and patterns such as `AWS_*`.
    """
    names = {*_INHERITED_NAMES, *select_variables(allowed, os.environ)}
    kept = {name: value for name, value in os.environ.items() if name in names}
    os.environ.clear()
    os.environ.update({**_DEFAULTS, **kept})
    for name, value in kept.items():
        if is_secret_name(name):
            register_secret(value)
    _erase_start_environment()


def explain_missing_variable(error: BaseException) -> str | None:
    """Return a hint if a lookup of an environment variable caused the error, otherwise None."""
    seen: set[int] = set()  # causes can form a cycle
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, KeyError) and _is_from_environ(cause):
            return _describe_missing(str(cause.args[0]))
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return None


def _is_from_environ(error: KeyError) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is type(os.environ).__getitem__.__code__


def _describe_missing(name: str) -> str:
    if is_withheld(name):
        return f"Isolated jobs never receive {name}; use ctx.secret() or another name"
    return (
        "Isolated jobs receive only a few environment variables; to pass this one on from the"
        f' worker, set job_environment = ["{name}"]'
    )


def find_mark_slot() -> None:
    """Find the memory where each child will write its mark."""
    global _mark_slot  # noqa: PLW0603 - one per process, inherited by forks
    address = _libc.getenv(_MARK_SLOT.encode())
    if address:
        # getenv returns the address after the name and the equals sign.
        _mark_slot = (ctypes.c_char * _MARK_SLOT_SIZE).from_address(address - len(_MARK_SLOT) - 1)


class JobVariables:
    """The variables that differ between jobs, set before each fork.

    putenv points the C library to one buffer, which `set` overwrites for each job. Assignments to
    os.environ would leak each previous value in the C library, and make it search among them.
    """

    def __init__(self, folder: str) -> None:
        """`folder` is the parent of the jobs' folders."""
        longest = len(folder.encode()) + 1 + _LONGEST_RUN
        names = {_HOME: longest, _TMPDIR: longest, _MARK: LONGEST_MARK, _MARK_ID: LONGEST_MARK}
        # Each with an equals sign and a terminating zero.
        sizes = [len(name) + 1 + size + 1 for name, size in names.items()]
        self._layout = struct.Struct("".join(f"{size}s" for size in sizes))
        self._buffer = ctypes.create_string_buffer(self._layout.size)
        self._environ_data: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined] # noqa: SLF001 - os.environ reads it
        self.set(folder, "")
        address = ctypes.addressof(self._buffer)
        for size in sizes:
            _libc.putenv(ctypes.c_void_p(address))
            address += size

    def set(self, folder: str, mark: str) -> None:
        home, owner = folder.encode(), mark.encode()
        job_id = owner[: owner.find(b".")]
        data = self._environ_data
        data[_HOME] = data[_TMPDIR] = home
        data[_MARK] = owner
        data[_MARK_ID] = job_id
        self._layout.pack_into(
            *(self._buffer, 0, b"HOME=" + home, b"TMPDIR=" + home),
            *(_MARK + b"=" + owner, _MARK_ID + b"=" + job_id),
        )


def write_mark(mark: bytes) -> None:
    """Show this fork's job in /proc/<pid>/environ.

    That file shows the memory of the environment with which the program was started, not later
    changes, so the mark overwrites the slot that was reserved in that memory.
    """
    if _mark_slot is not None:
        _mark_slot.raw = mark


def _erase_start_environment() -> None:
    """Erase all but the mark slot from /proc/<pid>/environ, which jobs can read."""
    if _mark_slot is None:
        return
    start, end = find_start_blocks().environment
    if start <= ctypes.addressof(_mark_slot) < end:
        kept = _mark_slot.raw
        ctypes.memset(start, 0, end - start)
        _mark_slot.raw = kept


def encode_mark(mark: str) -> bytes:
    """Return the bytes that `write_mark` writes."""
    return f"{MARK}={mark}".encode().ljust(_MARK_SLOT_SIZE, b"\0")
