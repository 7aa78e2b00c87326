"""Hides credentials from other processes of the same user.

Every command calls `harden` first. It forbids other processes to inspect this one, removes
credentials from its environment, and erases them from /proc/<pid>/environ and /proc/<pid>/cmdline.
`Handover` passes credentials to a child process. Only Linux has these files; on other systems only
the environment is reduced.
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
    """Forbid other processes of this user to read this process's environment, memory and files.

    Also disables core dumps. Root, and so a debugger run by root, still has access.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def harden() -> None:
    """Apply all measures. Call this first in a program, while it has one thread."""
    forbid_inspection()
    received = _receive()
    sys.argv[1:] = received.arguments or sys.argv[1:]
    withhold_credentials(received.environment)
    start = find_start_blocks()
    _erase_environment(*start.environment)
    _mask_arguments(*start.arguments)


def mask_passwords(text: str) -> str:
    """Return the text with passwords of database URLs and connection strings hidden."""
    # Hide up to the last @, because an unencoded password may contain @ itself.
    without = re.sub(r"(://[^/\s:@]*):\S*@", r"\1:***@", text)
    return re.sub(
        r"(\b(?:ssl)?password\s*=\s*)('[^']*'|[^\s&]+)", r"\1***", without, flags=re.IGNORECASE
    )


@dataclass(frozen=True, slots=True)
class Handover:
    """The arguments and variables for a child `jobforge` process.

    The child is started with `masked_arguments` and `environment`; `secrets` goes over a socket
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
        """Return the child's environment, with the descriptor that it inherits."""
        return {**self.environment, _DESCRIPTOR: str(descriptor)}


class StartBlocks(NamedTuple):
    """Addresses where the kernel stored the arguments and variables of this process."""

    arguments: tuple[int, int] = (0, 0)
    environment: tuple[int, int] = (0, 0)


def find_start_blocks() -> StartBlocks:
    try:
        stat = Path("/proc/self/stat").read_bytes()
    except OSError:
        return StartBlocks()
    # The process name, in brackets, may contain brackets and spaces.
    numbers = [int(word) for word in stat.rpartition(b")")[2].split()[45:49]]
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
        sys.exit("The parent process exited before it sent the settings")


def _erase_environment(start: int, end: int) -> None:
    if start == end:
        return
    # The C library has pointers into that block, so give it a copy of each variable first.
    for name, value in os.environ.items():
        with suppress(OSError, ValueError):  # a name that the kernel accepts but setenv does not
            os.environ[name] = value
    ctypes.memset(start, 0, end - start)


def _mask_arguments(start: int, end: int) -> None:
    if start == end:
        return
    block = (ctypes.c_char * (end - start)).from_address(start)
    arguments = block.raw.split(b"\0")
    masked = [
        os.fsencode(each) for each in _hide_credentials([os.fsdecode(each) for each in arguments])
    ]
    block.raw = b"\0".join(
        old if new == old else new[: len(old)].ljust(len(old), b"*")
        for old, new in zip(arguments, masked, strict=True)
    )


def _hide_credentials(arguments: Sequence[str]) -> list[str]:
    """Return the arguments with credentials masked."""
    masked: list[str] = []
    is_value = False
    for argument in arguments:
        option, equals, _ = argument.partition("=")
        if is_value or mask_passwords(argument) != argument:
            masked.append(_MASK)
        elif equals and option in _OPTIONS:
            masked.append(option + equals + _MASK)
        else:
            masked.append(argument)
        is_value = argument in _OPTIONS and not is_value
    return masked
