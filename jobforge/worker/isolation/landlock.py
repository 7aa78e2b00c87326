"""A Landlock domain for each job (Linux 5.19 and later): no privileges, no configuration.

A process in a domain cannot trace, or read the environment, memory and descriptors of, a process
outside it, even as root; from Linux 6.12 on it cannot send signals to one either. A process outside
of all domains, as the zygote is, can still read and signal jobs.

Files that hold credentials are unreadable too, where that costs nothing else: Landlock can only
list what is allowed, so the siblings of such a file are listed, and what is created there later is
not readable. Therefore this is only done below folders that jobs cannot write to. Without Landlock,
jobs run without these restrictions.
"""

import ctypes
import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

# The same numbers on every architecture.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_READ_FILE = 1 << 2
# Landlock forbids moving files between folders unless the ruleset handles and allows it.
_REFER = 1 << 13
_OLDEST_ABI = 2
_FIRST_ABI_WITH_SCOPES = 6
_SCOPE_SIGNAL = 2

# PyDLL does not release the GIL during the call, which saves work in a new fork.
_syscall: Callable[..., int] | None = (
    ctypes.PyDLL(None, use_errno=True).syscall if sys.platform == "linux" else None
)


def is_available() -> bool:
    """Whether the kernel has Landlock enabled, in a supported version."""
    return _abi() >= _OLDEST_ABI


def confines_signals() -> bool:
    """Whether a process in a domain can signal only processes in it."""
    return _abi() >= _FIRST_ABI_WITH_SCOPES


def _abi() -> int:
    return -1 if _syscall is None else _syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)


def protectable(paths: Iterable[Path]) -> list[Path]:
    """Return the paths whose parent folders this user cannot write to."""
    return [path for path in paths if all(map(_is_fixed, _real(path).parents))]


class Landlock:
    """The Landlock ruleset of one zygote's jobs. `paths` are the files that they must not read."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = protectable(paths) if is_available() else []
        self._folders: list[Path] = []
        self._mtimes: list[int] = []
        self._ruleset: int | None = None

    def prepare(self) -> None:
        """Call this before each fork: it creates the ruleset, again if a folder has changed."""
        if self._ruleset is None or self._mtimes != self._read_mtimes():
            self._create_ruleset()

    def enter(self, *, has_mounts: bool) -> None:
        """Put this process and all that it starts into a new domain. Needs no_new_privs.

        A process with separate mounts lists its files itself: the rules of its parent do not apply
        to what has been mounted since.
        """
        if has_mounts and self._paths:
            self._create_ruleset()
        if _syscall is not None and self._ruleset is not None:
            _syscall(_RESTRICT_SELF, self._ruleset, 0)
            os.close(self._ruleset)

    def _read_mtimes(self) -> list[int]:
        return [_read_mtime(folder) for folder in self._folders]

    def _create_ruleset(self) -> None:
        if self._ruleset is not None:
            os.close(self._ruleset)
            self._ruleset = None
        if not is_available():
            return
        self._folders = _find_watched_folders(self._paths)
        self._mtimes = self._read_mtimes()
        handled = _REFER | (_READ_FILE if self._paths else 0)
        attributes = struct.pack("Q", handled)
        if confines_signals():
            # handled_access_fs, handled_access_net, scoped
            attributes = struct.pack("QQQ", handled, 0, _SCOPE_SIGNAL)
        ruleset = _call_syscall(_CREATE_RULESET, attributes, len(attributes), 0)
        if ruleset is None:
            return
        _allow(ruleset, Path("/"), _REFER)
        for path in _readable(self._paths) if self._paths else ():
            _allow(ruleset, path, _READ_FILE)
        self._ruleset = ruleset


def _readable(hidden: Sequence[Path]) -> Iterator[Path]:
    """Yield all siblings of the hidden paths and of their parent folders."""
    real = {_real(path) for path in hidden}
    parents = {folder for path in real for folder in path.parents}
    for folder in parents - real:
        with suppress(OSError):  # the folder was removed, and the hidden path with it
            for entry in os.scandir(folder):
                path = Path(entry.path)
                if path not in parents and path not in real and not entry.is_symlink():
                    yield path


def _find_watched_folders(paths: Sequence[Path]) -> list[Path]:
    """Return the paths' parent folders, both as named and with symbolic links resolved."""
    return sorted({folder for path in paths for folder in (*path.parents, *_real(path).parents)})


def _real(path: Path) -> Path:
    return path.resolve()


def _is_fixed(folder: Path) -> bool:
    """Whether jobs cannot create files in the folder, and its entries can be listed."""
    return os.access(folder, os.R_OK | os.X_OK) and not os.access(folder, os.W_OK)


def _read_mtime(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _allow(ruleset: int, path: Path, access: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # removed, or not accessible for jobs either
        return
    try:
        _call_syscall(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, fd), 0)
    finally:
        os.close(fd)


def _call_syscall(number: int, *arguments: object) -> int | None:
    if _syscall is None:
        return None
    returned = _syscall(number, *arguments)
    return returned if returned >= 0 else None
