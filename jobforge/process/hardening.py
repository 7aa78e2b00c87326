"""Hide credentials from other processes of the same user.

`harden` is the first call of every command. It forbids others to look into this process, takes the
credentials out of its environment, and erases what /proc/<pid>/environ and /proc/<pid>/cmdline
show of them. `Handover` passes them to a process that we start. Only Linux has these files; on
other systems the environment is reduced, and nothing else is done.
"""

import ctypes
import json
import os
import re
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jobforge.process.environment import is_credential, withhold_credentials

_PR_SET_DUMPABLE = 4
_DESCRIPTOR = "JOBFORGE_HANDOVER_FD"
_OPTIONS = ("--database-url", "--api-key", "--key")
_MASK = "***"


def forbid_inspection() -> None:
    """Forbid other processes of this user to read our environment, memory and descriptors.

    Also forbids core dumps. Root still may, and so may a debugger that root starts.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def harden() -> None:
    """Call this first in a program, while it has one thread."""
    forbid_inspection()
    received = _receive()
    sys.argv[1:] = received.arguments or sys.argv[1:]
    withhold_credentials(received.environment)
    start = find_start_blocks()
    _erase_environment(*start.environment)
    _mask_arguments(*start.arguments)


def mask_passwords(text: str) -> str:
    """The text with the passwords of the database URLs and connection strings in it hidden."""
    # Up to the last @: a password that should have been percent-encoded is one all the same.
    without = re.sub(r"(://[^/\s:@]*):\S*@", r"\1:***@", text)
    return re.sub(
        r"(\b(?:ssl)?password\s*=\s*)('[^']*'|[^\s&]+)", r"\1***", without, flags=re.IGNORECASE
    )


@dataclass(frozen=True, slots=True)
class Handover:
    """The arguments and variables of a `jobforge` process that this one starts.

    `shown` and `environment` are what the process is started with; `secrets` goes over a socket
    whose descriptor it inherits.
    """

    masked_arguments: Sequence[str]
    environment: Mapping[str, str]
    secrets: bytes

    @classmethod
    def from_arguments(cls, arguments: Sequence[str], environment: Mapping[str, str]) -> "Handover":
        private = {name: text for name, text in environment.items() if is_credential(name)}
        public = {name: text for name, text in environment.items() if name not in private}
        body = json.dumps({"arguments": list(arguments), "environment": private}).encode()
        return cls(_hide_credentials(arguments), public, body)

    def variables(self, descriptor: int) -> dict[str, str]:
        """The environment to start the process with; it inherits this descriptor."""
        return {**self.environment, _DESCRIPTOR: str(descriptor)}


class StartBlocks(NamedTuple):
    """Where in memory the kernel put the arguments and variables of this process."""

    arguments: tuple[int, int] = (0, 0)
    environment: tuple[int, int] = (0, 0)


def find_start_blocks() -> StartBlocks:
    try:
        about = Path("/proc/self/stat").read_bytes()
    except OSError:
        return StartBlocks()
    # The name, in brackets, may itself contain brackets and spaces.
    numbers = [int(word) for word in about.rpartition(b")")[2].split()[45:49]]
    return StartBlocks((numbers[0], numbers[1]), (numbers[2], numbers[3]))


class _Received(NamedTuple):
    arguments: list[str]
    environment: dict[str, str]


def _receive() -> _Received:
    descriptor = os.environ.pop(_DESCRIPTOR, None)
    if descriptor is None:
        return _Received([], {})
    with socket.socket(fileno=int(descriptor)) as parent:
        body = b"".join(iter(lambda: parent.recv(65_536), b""))
    try:
        return _Received(**json.loads(body))
    except ValueError:
        sys.exit("the process that started this one ended before it had sent the settings")


def _erase_environment(start: int, end: int) -> None:
    if start == end:
        return
    # The C library points into that block: it gets a copy of each variable first.
    for name, value in os.environ.items():
        with suppress(OSError, ValueError):  # a name that only a kernel accepts
            os.environ[name] = value
    ctypes.memset(start, 0, end - start)


def _mask_arguments(start: int, end: int) -> None:
    if start == end:
        return
    block = (ctypes.c_char * (end - start)).from_address(start)
    arguments = block.raw.split(b"\0")
    shown = [
        os.fsencode(each) for each in _hide_credentials([os.fsdecode(each) for each in arguments])
    ]
    block.raw = b"\0".join(
        old if new == old else new[: len(old)].ljust(len(old), b"*")
        for old, new in zip(arguments, shown, strict=True)
    )


def _hide_credentials(arguments: Sequence[str]) -> list[str]:
    """The arguments without credentials."""
    shown: list[str] = []
    is_value = False
    for argument in arguments:
        option, equals, _ = argument.partition("=")
        if is_value or mask_passwords(argument) != argument:
            shown.append(_MASK)
        elif equals and option in _OPTIONS:
            shown.append(option + equals + _MASK)
        else:
            shown.append(argument)
        is_value = argument in _OPTIONS and not is_value
    return shown
