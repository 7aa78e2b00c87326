"""A `jobforge` subprocess, used by `worker --processes` and `dev` to run workers."""

import asyncio
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from jobforge.cli.options import UNTIL_STDIN_CLOSES
from jobforge.process.hardening import Handover

# Pending signals of one number are merged into one, so two drain requests use two signals.
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(slots=True, eq=False)
class ChildProcess:
    """A `jobforge` process that ends with its parent: it drains when its stdin closes."""

    child: asyncio.subprocess.Process
    _signals_sent: int = field(default=0, init=False)

    @classmethod
    async def start(
        cls, arguments: Sequence[str], environment: Mapping[str, str]
    ) -> "ChildProcess":
        handover = Handover.from_arguments([*arguments, UNTIL_STDIN_CLOSES], environment)
        # A socket: other processes could open a pipe through /proc/<pid>/fd.
        parent_end, child_end = socket.socketpair()
        with parent_end:
            with child_end:
                child = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-m", "jobforge", *handover.masked_arguments),
                    stdin=asyncio.subprocess.PIPE,
                    # A new session: Ctrl-C in the terminal must reach the worker only through us.
                    start_new_session=True,
                    env=handover.variables(child_end.fileno()),
                    pass_fds=[child_end.fileno()],
                )
            parent_end.setblocking(False)  # noqa: FBT003 - socket.setblocking takes no keyword
            with suppress(OSError):  # the process has exited, which `wait` reports
                await asyncio.get_running_loop().sock_sendall(parent_end, handover.secrets)
        return cls(child)

    @property
    def pid(self) -> int:
        return self.child.pid

    async def wait(self) -> int:
        """Return the exit code; minus the signal number if a signal killed the process."""
        return await self.child.wait()

    def kill(self) -> None:
        if self.child.returncode is None:
            self.child.kill()

    def drain(self) -> None:
        """First call: finish the running jobs and exit. Second call: release them and exit."""
        if self.child.returncode is None:
            self.child.send_signal(_STOP_SIGNALS[self._signals_sent % len(_STOP_SIGNALS)])
            self._signals_sent += 1
