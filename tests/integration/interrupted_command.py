"""Run `jobforge` and interrupt it: `python interrupted_command.py FD CALLS COMMAND…`.

It writes a byte to FD as soon as the command line handles signals; everything before that is
Python's own startup. If CALLS is 0 or more, it sends SIGINT to itself at that function call,
counted from the first byte, and writes a second byte. This hits windows of a few instructions,
which a timer would miss.
"""

import os
import runpy
import signal
import sys
from types import FrameType

from jobforge.process import interrupts


def main() -> None:
    _, fd, calls, *words = sys.argv
    sys.argv = ["jobforge", *words]
    install = interrupts.install

    def begin() -> None:
        install()
        os.write(int(fd), b".")
        if int(calls) >= 0:
            sys.setprofile(_Countdown(int(calls), int(fd)).count)
        else:
            os.close(int(fd))

    interrupts.install = begin
    runpy.run_module("jobforge", run_name="__main__", alter_sys=True)


class _Countdown:
    def __init__(self, left: int, fd: int) -> None:
        self._left = left
        self._fd = fd

    def count(self, _frame: FrameType, event: str, _argument: object) -> None:
        if event not in {"call", "c_call"}:
            return
        self._left -= 1
        if self._left < 0:
            sys.setprofile(None)
            os.write(self._fd, b"!")
            signal.raise_signal(signal.SIGINT)


if __name__ == "__main__":
    main()
