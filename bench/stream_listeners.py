"""Program with many clients of the live stream in one process, on bare sockets.

Protocol, in lines of JSON on stdin and stdout:

1. The program reads the server's address and the listeners (a tenant and an API key each), connects
   all of them, and prints how many are connected.
2. It reads the path of a file that names everything that has happened so far, by tenant. When every
   listener has received as many messages as its tenant has names, or after a minute, it prints the
   number of missed, superfluous and foreign messages. It repeats this step until stdin ends.

A listener whose connection is closed reconnects with the last event ID, as browsers do.
"""

import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import orjson

_AT_ONCE = 50  # connections that are opened concurrently
_LONGEST_S = 60
_AFTERWARDS_S = 0.5  # how long to wait for superfluous messages
_PAUSE_S = 0.02


@dataclass(slots=True, eq=False)
class Listener:
    """A client of one tenant, and the names of the messages it has received, in order."""

    tenant: str
    key: str
    received: list[str] = field(default_factory=list)
    foreign: int = 0
    cuts: int = -1
    last_id: str | None = None
    has_position: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self, host: str, port: int, names: dict[str, str]) -> None:
        """Read the stream until this task is canceled; reconnect when the connection ends."""
        while True:
            self.cuts += 1
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(self._request(host, port))
                await self._read_head(reader)
                await self._read_events(reader, names)
            finally:
                writer.close()

    def _request(self, host: str, port: int) -> bytes:
        lines = [
            "GET /api/v1/stream HTTP/1.1",
            f"Host: {host}:{port}",
            f"Authorization: Bearer {self.key}",
            *([f"Last-Event-ID: {self.last_id}"] if self.last_id else []),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    async def _read_head(self, reader: asyncio.StreamReader) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200") or b"chunked" not in head:
            raise RuntimeError(f"the stream responded with {head.decode()}")

    async def _read_events(self, reader: asyncio.StreamReader, names: dict[str, str]) -> None:
        incomplete = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            chunk = await reader.readexactly(size + 2)
            *events, incomplete = (incomplete + chunk[:-2]).split(b"\n\n")
            for event in events:
                self._receive(event.decode(), names)

    def _receive(self, event: str, names: dict[str, str]) -> None:
        fields = dict(line.split(": ", 1) for line in event.split("\n"))
        if "id" in fields:
            self.last_id = fields["id"]
            self.has_position.set()
        if fields.get("event") == "reset":
            raise RuntimeError(f"the stream was reset: {event}")
        if fields.get("event") in {"attempt", "event"}:
            data = orjson.loads(fields["data"])
            self.foreign += data["tenant_id"] != self.tenant
            name = name_of(data)
            self.received.append(names.setdefault(name, name))  # listeners share one string


def name_of(data: dict[str, object]) -> str:
    """Name an attempt by number and outcome, and an event by its `n`, as stream_load.py does."""
    if "outcome" in data:
        return f"{data['job_id']} attempt {data['attempt']} {data['outcome']}"
    content = data["data"]
    return (
        f"{data['job_id']} {data['name']} {content.get('n') if isinstance(content, dict) else None}"
    )


async def run_listeners(host: str, port: int, listeners: list[Listener]) -> None:
    names: dict[str, str] = {}
    slots = asyncio.Semaphore(_AT_ONCE)

    async def connect(listener: Listener) -> None:
        async with slots, asyncio.timeout(_LONGEST_S):
            group.create_task(listener.listen(host, port, names))
            await listener.has_position.wait()

    async with asyncio.TaskGroup() as group:
        async with asyncio.TaskGroup() as connecting:
            for each in listeners:
                connecting.create_task(connect(each))
        _print_json({"connected": len(listeners)})
        while file := (await asyncio.to_thread(sys.stdin.readline)).strip():
            expected = json.loads(await asyncio.to_thread(Path(file).read_text))
            await _wait_until_received(listeners, expected)
            _print_json(_count_faults(listeners, expected))
        raise _InputEnded


class _InputEnded(Exception):
    """The input has ended: cancels all listeners through the task group."""


async def _wait_until_received(listeners: list[Listener], expected: dict[str, list[str]]) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _LONGEST_S
    while any(len(each.received) < len(expected[each.tenant]) for each in listeners):
        if loop.time() > deadline:
            return
        await asyncio.sleep(_PAUSE_S)
    await asyncio.sleep(_AFTERWARDS_S)


def _count_faults(listeners: list[Listener], names: dict[str, list[str]]) -> dict[str, int]:
    expected_counts = {tenant: Counter(expected) for tenant, expected in names.items()}
    counts: Counter[str] = Counter()
    for each in listeners:
        received = Counter(each.received)
        counts["received"] += received.total()
        counts["missed"] += (expected_counts[each.tenant] - received).total()
        counts["superfluous"] += (received - expected_counts[each.tenant]).total()
        counts["foreign"] += each.foreign
        counts["cuts"] += each.cuts
    return dict(counts)


def _print_json(answer: dict[str, int]) -> None:
    print(json.dumps(answer), flush=True)


async def main() -> None:
    plan = json.loads(sys.stdin.readline())
    listeners = [Listener(**each) for each in plan["listeners"]]
    try:
        await run_listeners(plan["host"], plan["port"], listeners)
    except* _InputEnded:
        pass


if __name__ == "__main__":
    asyncio.run(main())
