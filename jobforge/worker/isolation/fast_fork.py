"""Fork a zygote's children without Python's fork hooks, which are half of the cost of a fork.

os.fork runs hooks in the child: threading, logging and others re-create their locks and lists,
which a thread that does not exist in the child may have held. A zygote has one thread, so it does
not need them. If the app registers fork hooks or starts threads, the zygote uses os.fork.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

# Standard library modules that register hooks.
_STDLIB_MODULES = {"concurrent.futures.thread", "logging", "random", "threading"}
# What os.fork resets in addition to the hooks differs by release; in 3.11 it matters to threads
# only.
_SUPPORTED_PYTHON = (3, 11)
# PyDLL does not release the GIL during the call, so the child holds it too.
_libc_fork = ctypes.PyDLL(None, use_errno=True).fork


class ForkHooks:
    """Detects fork hooks that are not registered by the standard library."""

    def __init__(self) -> None:
        self.has_app_hooks = False

    @contextmanager
    def watch_registrations(self) -> Iterator[None]:
        register = os.register_at_fork

        def register_and_record(**hooks: Callable[[], object]) -> None:
            module = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - no public way to get the caller
            self.has_app_hooks = self.has_app_hooks or module not in _STDLIB_MODULES
            register(**hooks)

        setattr(os, "register_at_fork", register_and_record)  # noqa: B010 - no checker lets it be assigned
        try:
            yield
        finally:
            setattr(os, "register_at_fork", register)  # noqa: B010 - no checker lets it be assigned


def choose_fork(hooks: ForkHooks) -> Callable[[], int]:
    is_known = sys.platform == "linux" and sys.version_info[:2] == _SUPPORTED_PYTHON
    if not is_known or hooks.has_app_hooks or _has_threads():
        return os.fork
    random = sys.modules.get("random")
    if random is None:  # a job that imports it later gets its own seed
        return _fork
    random.seed()  # also discards the second number that gauss() keeps
    # The C method that random.seed wraps.
    return partial(_fork_seeded, super(random.Random, random.seed.__self__).seed)


def _has_threads() -> bool:
    """Whether Python or a library has started threads; True where /proc cannot tell."""
    try:
        return threading.active_count() > 1 or len(list(Path("/proc/self/task").iterdir())) > 1
    except OSError:
        return True


def _fork_seeded(seed: Callable[[], None]) -> int:
    # random's fork hook seeds in the child, where that copies more pages.
    seed()
    return _fork()


def _fork() -> int:
    pid: int = _libc_fork()
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return pid
