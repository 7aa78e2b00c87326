"""A proxy in front of Postgres that disturbs connections in the ways that a network can.

It parses enough of the protocol to drop the reply to a chosen statement *after* the server has
committed it, so that the sender cannot know the result. It can also drop a statement before the
server receives it, delay everything, stall, and reset. It runs in a separate thread.
"""

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from cluster import Database

# Untyped first messages of a client: requests for encryption, which the proxy declines.
_ENCRYPTION_REQUESTS = {80877103, 80877104}
_QUERY, _PARSE, _BIND, _SYNC = b"Q", b"P", b"B", b"S"
_READY, _ERROR = b"Z", b"E"


class Loss(StrEnum):
    """What is lost before the connection is reset."""

    REQUEST = "request"  # the server never receives the statement
    REPLY = "reply"  # the server has executed it, and the client gets no reply


@dataclass(frozen=True, slots=True)
class Cut:
    """Drops the request or reply of statements that contain `statement`, with this probability."""

    statement: str
    loss: Loss = Loss.REPLY
    chance: float = 1.0


class Proxy:
    """`with Proxy(database) as proxy`: clients connect to `proxy.url(login)`."""

    def __init__(self, database: Database, *, seed: int = 0) -> None:
        self.seen: Counter[tuple[str, Loss]] = Counter()
        self.latency_s = 0.0
        self.cuts: tuple[Cut, ...] = ()
        self._database = database
        self._chance = random.Random(seed)  # noqa: S311 - a seed
        self._connections: set[_ProxiedConnection] = set()
        self._port = 0
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=[self._serve()], daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(10), "the proxy did not start"
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._over.set)
        self._thread.join(10)

    def url(self, login: str) -> str:
        return f"postgresql://{login}@127.0.0.1:{self._port}/{self._database.name}"

    def reset(self) -> None:
        """End every connection as if the peer had crashed and restarted."""
        self._do(self._reset)

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Within the block nothing is forwarded, and connections stay open."""
        self._do(self._flowing.clear)
        try:
            yield
        finally:
            self._do(self._flowing.set)

    def count(self, statement: str, loss: Loss = Loss.REPLY) -> int:
        """Return how many times a cut was made."""
        return self.seen[statement, loss]

    def _do(self, act: Callable[[], None]) -> None:
        """Run the function in the proxy's thread, and wait for it."""

        async def doing() -> None:
            act()

        asyncio.run_coroutine_threadsafe(doing(), self._loop).result(10)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._flowing = asyncio.Event()
        self._flowing.set()
        listening = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = int(listening.sockets[0].getsockname()[1])
        self._ready.set()
        await self._over.wait()
        listening.close()
        while self._connections:
            self._reset()
            await asyncio.sleep(0)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server = self._database.server
        path = server.socket_dir / f".s.PGSQL.{server.port}"
        try:
            upstream = await asyncio.open_unix_connection(path)
        except OSError:  # Postgres is not running
            _abort(writer)
            return
        link = _ProxiedConnection(self, (reader, writer), upstream)
        self._connections.add(link)
        try:
            await link.run()
        finally:
            self._connections.discard(link)

    def _reset(self) -> None:
        for link in tuple(self._connections):
            link.reset()

    async def pass_time(self) -> None:
        await self._flowing.wait()
        if self.latency_s:
            await asyncio.sleep(self.latency_s)

    def cut_for(self, text: str) -> Cut | None:
        for cut in self.cuts:
            if cut.statement in text and self._chance.random() < cut.chance:
                return cut
        return None


_Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(eq=False, slots=True)
class _ProxiedConnection:
    """A client's connection, and the proxy's connection to the server for it."""

    proxy: Proxy
    client: _Stream
    server: _Stream
    statements: dict[bytes, str] = field(default_factory=dict)
    # One entry for each ReadyForQuery that the server has yet to send; the first ends the start-up.
    owed: deque[Cut | None] = field(default_factory=lambda: deque([None]))

    async def run(self) -> None:
        pumps = [asyncio.ensure_future(self._send()), asyncio.ensure_future(self._answer())]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        self.reset()
        await asyncio.gather(*pumps)

    def reset(self) -> None:
        _abort(self.client[1])
        _abort(self.server[1])

    async def _send(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            await self._start_up()
            await self._pump_statements()

    async def _pump_statements(self) -> None:
        cut: Cut | None = None
        while True:
            kind, message = await _read_message(self.client[0])
            await self.proxy.pass_time()
            cut = cut or self._choose_cut(kind, message[5:])
            if cut and cut.loss is Loss.REQUEST:
                self.proxy.seen[cut.statement, cut.loss] += 1
                return
            if kind in {_QUERY, _SYNC}:
                self.owed.append(cut)
                cut = None
            self.server[1].write(message)

    async def _start_up(self) -> None:
        reader, writer = self.client
        while True:
            length = await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(length, "big") - 4)
            if int.from_bytes(body[:4], "big") not in _ENCRYPTION_REQUESTS:
                self.server[1].write(length + body)
                return
            writer.write(b"N")

    def _choose_cut(self, kind: bytes, body: bytes) -> Cut | None:
        match kind:
            case b"Q":
                return self.proxy.cut_for(body.decode(errors="replace"))
            case b"P":
                name, text, _ = body.split(b"\0", 2)
                self.statements[name] = text.decode(errors="replace")
            case b"B":
                _, name, _ = body.split(b"\0", 2)
                return self.proxy.cut_for(self.statements.get(name, ""))
        return None

    async def _answer(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            await self._pump_answers()

    async def _pump_answers(self) -> None:
        held: list[bytes] = []
        failed = False
        while True:
            kind, message = await _read_message(self.server[0])
            await self.proxy.pass_time()
            cut = self.owed[0] if self.owed else None
            failed = failed or kind == _ERROR
            held.append(message)
            if kind == _READY:
                self.owed.popleft()
                if cut and not failed:
                    self.proxy.seen[cut.statement, cut.loss] += 1
                    return
                cut, failed = None, False
            if cut is None:
                self.client[1].write(b"".join(held))
                held.clear()


async def _read_message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    head = await reader.readexactly(5)
    return head[:1], head + await reader.readexactly(int.from_bytes(head[1:], "big") - 4)


def _abort(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    if connection is not None and connection.fileno() != -1:
        # Linger 0: the peer gets a reset, and unsent data is lost.
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
