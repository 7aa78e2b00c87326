"""Ctrl-C and SIGTERM: ends a command in any situation in which the signal may arrive.

Python raises KeyboardInterrupt between any two instructions of the main thread. The exception can
be lost, for one of five reasons:

- A shell without job control starts background commands with SIGINT ignored, and Python then
  installs no handler. `install` always sets the handler.
- It is raised in a finalizer, a generator that is being closed, a weakref callback or a callback of
  a C extension, where Python prints and discards it. `_handle_unraisable` sends the signal again.
- It is raised in the import system, and leaves a module's lock locked: the next import waits
  forever. `_interrupt` sends the signal again a moment later.
- A C function blocks, such as a DNS lookup, or a library swallows the exception. `enforce_exit`
  ends the process from another thread.
- The interpreter is importing modules or shutting down, and would print a traceback. Then the
  handler exits at once.

Commands that drain, such as workers, do not use the exception: see `on_stop_signals` and
`StopRequest`.
"""

import _thread
import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

EXIT_CODE = 128 + signal.SIGINT

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

# Time for a command to clean up after Ctrl-C, for example to cancel its SQL statement.
_GRACE_S = 3.0
_AGAIN_S = 0.01
_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"

_is_installed = False
_is_interrupted = False


def install() -> None:
    """Make Ctrl-C end this process at once, until `raise_on_interrupt`. Call in the main thread."""
    global _is_installed  # noqa: PLW0603 - one per process
    _is_installed = True
    exit_on_interrupt()
    sys.unraisablehook = _handle_unraisable
    sys.excepthook = _handle_uncaught
    # Registered first, so it runs last. Python resets the handlers during the short rest of the
    # shutdown, and a signal then would change the exit code.
    atexit.register(_ignore)


def raise_on_interrupt() -> None:
    """Make Ctrl-C raise KeyboardInterrupt once; a second Ctrl-C exits at once."""
    if _is_installed:
        signal.signal(signal.SIGINT, _interrupt)


def exit_on_interrupt() -> None:
    """Make Ctrl-C end the process at once, when there is nothing left to clean up."""
    if _is_installed:
        signal.signal(signal.SIGINT, _exit_at_once)


def is_interrupted() -> bool:
    """Return whether KeyboardInterrupt was raised. Later errors may be consequences of it."""
    return _is_interrupted


def finish() -> None:
    """Call `exit_on_interrupt`, unless the command handles signals and sets its exit code."""
    if signal.getsignal(signal.SIGINT) is _interrupt:
        exit_on_interrupt()


def exit_within(code: int, seconds: float) -> None:
    """End the process after this time, even if threads or coroutines are still busy."""
    timer = threading.Timer(seconds, os._exit, [code])
    timer.daemon = True
    timer.start()


@contextmanager
def enforce_exit() -> Iterator[None]:
    """End the process a few seconds after Ctrl-C if it is still running.

    For commands that wait for a database or a server. Does nothing outside the main thread, or if
    `install` was not called because `main` runs inside another program.
    """
    if not _is_installed or threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=_enforce, args=(reader,), daemon=True).start()
    try:
        yield
    finally:
        # Assumes that no other code has set a wakeup descriptor in the meantime.
        signal.set_wakeup_fd(previous)
        os.close(writer)


class StopRequest:
    """A request to stop that a signal handler sets and the main thread waits for.

    Not a threading.Event: the code that the handler interrupts may hold the event's lock.
    """

    __slots__ = ("_wakeups", "is_set")

    def __init__(self) -> None:
        self.is_set = False
        self._wakeups: SimpleQueue[None] = SimpleQueue()  # SimpleQueue.put is reentrant

    def set(self) -> None:
        self.is_set = True
        self._wakeups.put(None)

    def wait(self) -> None:
        while not self.is_set:
            self._wakeups.get()


def on_stop_signals(
    loop: "AbstractEventLoop",
    act: Callable[[], object],
    *,
    numbers: Iterable[signal.Signals] = STOP_SIGNALS,
) -> None:
    """Call `act` in the loop for each of these signals; ignore them once the loop is closed.

    Does not use the loop's own handlers: closing the loop removes them, and a signal would then
    kill the process instead of letting it return its exit code.
    """

    def handle(_number: int, _frame: FrameType | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: the command has finished
            loop.call_soon_threadsafe(act)

    for number in numbers:
        signal.signal(number, handle)


def on_end_of_stdin(loop: "AbstractEventLoop", act: Callable[[], object]) -> None:
    """Call `act` in the loop when stdin closes, which means that the parent process has ended."""
    stdin = sys.stdin.fileno()

    def read() -> None:
        if not os.read(stdin, 4096):
            loop.remove_reader(stdin)
            act()

    loop.add_reader(stdin, read)


def _interrupt(_number: int, frame: FrameType | None) -> None:
    global _is_interrupted  # noqa: PLW0603 - one per process
    if _is_in_import_system(frame):
        _thread.start_new_thread(_send_again, ())
        return
    _is_interrupted = True
    exit_on_interrupt()
    raise KeyboardInterrupt


def _is_in_import_system(frame: FrameType | None) -> bool:
    """Return whether the import system runs, and not the code of a module that it imports."""
    while frame is not None and frame.f_code.co_name != "<module>":
        if frame.f_code.co_filename == _IMPORT_SYSTEM:
            return True
        frame = frame.f_back
    return False


def _exit_at_once(_number: int, _frame: FrameType | None) -> None:
    os._exit(EXIT_CODE)


def _ignore() -> None:
    for number in STOP_SIGNALS:
        if callable(signal.getsignal(number)):  # keep default and ignored signals
            signal.signal(number, signal.SIG_IGN)


def _handle_unraisable(unraisable: "sys.UnraisableHookArgs") -> None:
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    raise_on_interrupt()
    # In another thread: the handler would run within this hook, which also discards exceptions.
    _thread.start_new_thread(_send_again, ())


def _send_again() -> None:
    time.sleep(_AGAIN_S)
    os.kill(os.getpid(), signal.SIGINT)


def _handle_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(EXIT_CODE)


def _enforce(reader: int) -> None:
    with os.fdopen(reader, "rb", buffering=0) as signals:
        while received := signals.read(64):
            if signal.SIGINT in received:
                time.sleep(_GRACE_S)
                os._exit(EXIT_CODE)
