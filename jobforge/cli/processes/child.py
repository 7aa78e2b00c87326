"""A worker in a process of its own, as `worker --processes` and `dev` run them."""

import asyncio
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from jobforge.cli.options import UNTIL_STDIN_CLOSES
from jobforge.process.hardening import Handover

# Of a signal that comes again before it was heard, only one is heard: so not the same twice.
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(slots=True, eq=False)
class ChildProcess:
    """`jobforge …`, which ends when we do, however we do: its stdin is held open by us."""

    child: asyncio.subprocess.Process
    _signals_sent: int = field(default=0, init=False)

    @classmethod
    async def start(
        cls, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> "ChildProcess":
        handover = Handover.from_arguments([*arguments, UNTIL_STDIN_CLOSES], environment)
        # A socket, which other processes cannot open by its place in /proc, as they can a pipe.
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                child = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "jobforge", *handover.masked_arguments),
                    stdin=asyncio.subprocess.PIPE,
                    # A Ctrl-C in the terminal is for us: a worker would receive it twice.
                    start_new_session=True,
                    env=handover.variables(theirs.fileno()),
                    pass_fds=[theirs.fileno()],
                )
            ours.setblocking(False)  # noqa: FBT003 - its only argument
            with suppress(OSError):  # the process has ended, which `wait` reports
                await asyncio.get_running_loop().sock_sendall(ours, handover.secrets)
        return cls(child)

    @property
    def pid(self) -> int:
        return self.child.pid

    async def wait(self) -> int:
        """The exit code; of a process that a signal ended, minus its number."""
        return await self.child.wait()

    def kill(self) -> None:
        if self.child.returncode is None:
            self.child.kill()

    def drain(self) -> None:
        """Once: finish and end. Twice: hand everything back and end."""
        if self.child.returncode is None:
            self.child.send_signal(_STOP_SIGNALS[self._signals_sent % len(_STOP_SIGNALS)])
            self._signals_sent += 1
