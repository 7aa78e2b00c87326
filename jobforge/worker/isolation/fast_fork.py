"""How a zygote forks: without what Python does in every child for the sake of other threads.

os.fork has hooks: threading, logging and others make their locks and lists anew, in case that a
thread which is not in the child held them. A zygote has one thread, so there is nothing to mend,
and the hooks are half of what a fork costs. Where an app brings hooks or threads, all of them run.
"""

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

# Modules of Python's own that have hooks.
_STDLIB_MODULES = {"concurrent.futures.thread", "logging", "random", "threading"}
# What os.fork mends beside the hooks differs by release; in this one it is for threads alone.
_SUPPORTED_PYTHON = (3, 11)
# It keeps the interpreter's lock, which the child then has too.
_libc_fork = ctypes.PyDLL(None, use_errno=True).fork


class ForkHooks:
    """Whether somebody else than Python has asked os.fork to be told of it."""

    def __init__(self) -> None:
        self.has_app_hooks = False

    @contextmanager
    def watch_registrations(self) -> Iterator[None]:
        register = os.register_at_fork

        def notice(**hooks: Callable[[], object]) -> None:
            who = sys._getframe(1).f_globals.get("__name__")  # noqa: SLF001 - no other way to know
            self.has_app_hooks = self.has_app_hooks or who not in _STDLIB_MODULES
            register(**hooks)

        setattr(os, "register_at_fork", notice)  # noqa: B010 - no checker lets it be assigned
        try:
            yield
        finally:
            setattr(os, "register_at_fork", register)  # noqa: B010 - as above


def choose_fork(hooks: ForkHooks) -> Callable[[], int]:
    is_known = sys.platform == "linux" and sys.version_info[:2] == _SUPPORTED_PYTHON
    if not is_known or hooks.has_app_hooks or _has_threads():
        return os.fork
    random = sys.modules.get("random")
    if random is None:  # a job that imports it gets numbers of its own
        return _fork
    random.seed()  # which forgets a second number of gauss() too
    # What random.seed is around, in C.
    return partial(_fork_seeded, super(random.Random, random.seed.__self__).seed)


def _has_threads() -> bool:
    """Of Python's or of any library's; who cannot look may have some."""
    try:
        return threading.active_count() > 1 or len(list(Path("/proc/self/task").iterdir())) > 1
    except OSError:
        return True


def _fork_seeded(seed: Callable[[], None]) -> int:
    # As the hook of random does it in the child, where it would be more pages to copy.
    seed()
    return _fork()


def _fork() -> int:
    pid: int = _libc_fork()
    if pid < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return pid
