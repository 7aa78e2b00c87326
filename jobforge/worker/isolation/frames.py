"""Encode and decode the frames on the sockets between worker, zygote and job.

A frame is a length, a kind and a body. Requests to the zygote have a fixed size instead, because
file descriptors come with them, and a read must not go past the request that they belong to. What
a frame does is left to its receiver.
"""

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import NamedTuple

from jobforge.errors import Invalid
from jobforge.sdk.definition_settings import ProcessLimits
from jobforge.worker.isolation.proc import LONGEST_MARK

# More than the engine stores of any payload or result.
MAX_FRAME_BYTES = 32 * 1024**2

_HEAD = struct.Struct("<IB")


class FrameKind(IntEnum):
    # From the worker to its zygote, once at the start.
    SETUP = 1
    # From the zygote to the worker.
    READY = 2
    FAILED = 3
    ENDED = 4
    ECHO = 13
    # From the worker to a job's process.
    RUN = 5
    RESPONSE = 6
    # From a job's process to the worker.
    NOTE = 7
    VERDICT = 10
    REQUEST = 11
    SPAN = 12
    # Pieces of a large document, sent before the RUN or VERDICT frame that it belongs to.
    PAYLOAD = 20
    RESULT = 21


_KINDS: dict[int, FrameKind] = {int(kind): kind for kind in FrameKind}
_PIECE = 1024**2


class InvalidFrame(Exception):
    """Data received on a socket is not a valid frame."""


def encode_frame(kind: FrameKind, body: bytes = b"") -> bytes:
    if len(body) > MAX_FRAME_BYTES:
        size = len(body) // 1024**2
        raise Invalid(f"{size} MiB exceed the limit for messages between processes", field="result")
    return _HEAD.pack(len(body), kind) + body


def split_document(kind: FrameKind, document: bytes) -> Iterator[bytes]:
    """Yield the frames of a large document, 1 MiB each."""
    for start in range(0, len(document), _PIECE):
        yield encode_frame(kind, document[start : start + _PIECE])


class FrameDecoder:
    """Splits a stream of bytes into frames."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterable[tuple[FrameKind, bytes]]:
        if not self._rest and len(data) >= _HEAD.size:
            length, kind = _HEAD.unpack_from(data)
            if length == len(data) - _HEAD.size and kind in _KINDS:
                # Fast path: most reads return exactly one whole frame.
                return ((_KINDS[kind], data[_HEAD.size :]),)
        return self._cut(data)

    def _cut(self, data: bytes) -> Iterator[tuple[FrameKind, bytes]]:
        rest = self._rest
        rest += data
        start = 0
        try:
            while len(rest) - start >= _HEAD.size:
                length, kind = _HEAD.unpack_from(rest, start)
                end = start + _HEAD.size + length
                if length > MAX_FRAME_BYTES or kind not in _KINDS:
                    raise InvalidFrame
                if end > len(rest):
                    return
                body = bytes(rest[start + _HEAD.size : end])
                start = end
                yield _KINDS[kind], body
        finally:
            del rest[:start]


class Op(IntEnum):
    FORK = 1
    SIGNAL = 2  # signal the job's first process
    SIGNAL_GROUP = 3
    KILL = 4  # kill all processes of the job
    ECHO = 5  # respond, to show that the zygote is alive


class ZygoteRequest(NamedTuple):
    """A request of the worker to its zygote. `run` is the number of the run in this worker.

    `mark` is the job's ID and lease, which every process of the job has in its environment.
    """

    op: int
    run: int
    signal: int = 0
    memory_bytes: int = 0
    cpu_s: int = 0
    open_files: int = 0
    file_size_bytes: int = 0
    mark: str = ""

    def pack(self) -> bytes:
        return _REQUEST.pack(*self[:7], self.mark.encode())

    @classmethod
    def unpack(cls, data: bytes) -> "ZygoteRequest":
        *fields, mark = _REQUEST.unpack(data)
        return cls._make((*fields, mark.rstrip(b"\0").decode()))

    @classmethod
    def fork(cls, run: int, limits: ProcessLimits, mark: str) -> "ZygoteRequest":
        return cls(
            *(Op.FORK, run, 0, limits.memory_bytes, limits.cpu_s or 0, limits.open_files),
            *(limits.file_size_bytes or 0, mark),
        )

    @property
    def limits(self) -> ProcessLimits:
        return ProcessLimits(
            self.memory_bytes, self.cpu_s or None, self.open_files, self.file_size_bytes or None
        )


_REQUEST = struct.Struct(f"<BQBqqqq{LONGEST_MARK}s")
REQUEST_SIZE = _REQUEST.size


class ExceededLimit(IntEnum):
    """Which limit a process exceeded, as far as the zygote knows."""

    NONE = 0
    MEMORY = 1
    CPU = 2
    FILE_SIZE = 3
    PROCESSES = 4


class ChildExit(NamedTuple):
    """The end of a job's process. A `pid` of 0 means the fork failed, and `status` is its errno."""

    run: int
    pid: int
    status: int
    peak_memory_bytes: int
    cpu_ms: int
    exceeded: ExceededLimit

    def pack(self) -> bytes:
        return _CHILD_EXIT.pack(*self)

    @classmethod
    def unpack(cls, data: bytes) -> "ChildExit":
        ended = cls._make(_CHILD_EXIT.unpack(data))
        return ended._replace(exceeded=ExceededLimit(ended.exceeded))


_CHILD_EXIT = struct.Struct("<QIiqqB")
