"""A worker in a process of its own, as `worker --processes` and `dev` run them."""

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from jobforge.cli.options import UNTIL_STDIN_CLOSES

# Of a signal that comes again before it was heard, only one is heard: so not the same twice.
_WISHES = (signal.SIGTERM, signal.SIGINT)


@dataclass(slots=True, eq=False)
class Process:
    """`jobforge …`, which ends when we do, however we do: its stdin is held open by us."""

    child: asyncio.subprocess.Process
    _told: int = field(default=0, init=False)

    @classmethod
    async def start(
        cls, arguments: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> "Process":
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "jobforge", *arguments, UNTIL_STDIN_CLOSES),
            stdin=asyncio.subprocess.PIPE,
            # A Ctrl-C in the terminal is for us: a worker that hears it too would hear it twice.
            start_new_session=True,
            env=environment,
        )
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
            self.child.send_signal(_WISHES[self._told % len(_WISHES)])
            self._told += 1
