"""The audience: many clients of the live stream in one process, on bare sockets.

A program. It reads one line of JSON, who is to listen where, connects them all, and says so. Then
it reads names of files, each with everything that has happened so far, by tenant; when everybody
has heard as much, or a minute has passed, it answers what was missed, heard twice, or heard of
another tenant. A client that is cut off comes back with the id it has, as browsers do. Ends with
its input.
"""

import asyncio
import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import orjson

_AT_ONCE = 50  # connections that are being made
_LONGEST_S = 60
_AFTERWARDS_S = 0.5  # for what should not come
_PAUSE_S = 0.02


@dataclass(slots=True, eq=False)
class Listener:
    """A client of one tenant, and what it has heard: the names of happenings, in their order."""

    tenant: str
    key: str
    heard: list[str] = field(default_factory=list)
    foreign: int = 0
    cuts: int = -1
    last_id: str | None = None
    is_placed: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self, host: str, port: int, names: dict[str, str]) -> None:
        """For as long as it is not canceled."""
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
            raise RuntimeError(f"the stream answered {head.decode()}")

    async def _read_events(self, reader: asyncio.StreamReader, names: dict[str, str]) -> None:
        waiting = b""
        while size := int(await reader.readuntil(b"\r\n"), 16):
            chunk = await reader.readexactly(size + 2)
            *events, waiting = (waiting + chunk[:-2]).split(b"\n\n")
            for event in events:
                self._hear(event.decode(), names)

    def _hear(self, event: str, names: dict[str, str]) -> None:
        fields = dict(line.split(": ", 1) for line in event.split("\n"))
        if "id" in fields:
            self.last_id = fields["id"]
            self.is_placed.set()
        if fields.get("event") == "reset":
            raise RuntimeError(f"the stream was reset: {event}")
        if fields.get("event") in {"attempt", "event"}:
            data = orjson.loads(fields["data"])
            self.foreign += data["tenant_id"] != self.tenant
            name = name_of(data)
            self.heard.append(names.setdefault(name, name))  # one text for all who hear it


def name_of(data: dict[str, object]) -> str:
    """As `happened` of bustle.py calls it: an attempt by number and outcome, an event by its n."""
    if "outcome" in data:
        return f"{data['job_id']} attempt {data['attempt']} {data['outcome']}"
    noted = data["data"]
    return f"{data['job_id']} {data['name']} {noted.get('n') if isinstance(noted, dict) else None}"


async def attend(host: str, port: int, listeners: list[Listener]) -> None:
    names: dict[str, str] = {}
    slots = asyncio.Semaphore(_AT_ONCE)

    async def place(listener: Listener) -> None:
        async with slots, asyncio.timeout(_LONGEST_S):
            group.create_task(listener.listen(host, port, names))
            await listener.is_placed.wait()

    async with asyncio.TaskGroup() as group:
        async with asyncio.TaskGroup() as placing:
            for each in listeners:
                placing.create_task(place(each))
        _say({"connected": len(listeners)})
        while file := (await asyncio.to_thread(sys.stdin.readline)).strip():
            happened = json.loads(await asyncio.to_thread(Path(file).read_text))
            await _until_heard(listeners, happened)
            _say(_compared(listeners, happened))
        raise _Over


class _Over(Exception):
    """The audience may leave."""


async def _until_heard(listeners: list[Listener], happened: dict[str, list[str]]) -> None:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _LONGEST_S
    while any(len(each.heard) < len(happened[each.tenant]) for each in listeners):
        if loop.time() > deadline:
            return
        await asyncio.sleep(_PAUSE_S)
    await asyncio.sleep(_AFTERWARDS_S)


def _compared(listeners: list[Listener], happened: dict[str, list[str]]) -> dict[str, int]:
    expected = {tenant: Counter(names) for tenant, names in happened.items()}
    counts: Counter[str] = Counter()
    for each in listeners:
        heard = Counter(each.heard)
        counts["heard"] += heard.total()
        counts["missed"] += (expected[each.tenant] - heard).total()
        counts["too_many"] += (heard - expected[each.tenant]).total()
        counts["foreign"] += each.foreign
        counts["cuts"] += each.cuts
    return dict(counts)


def _say(answer: dict[str, int]) -> None:
    print(json.dumps(answer), flush=True)


async def main() -> None:
    plan = json.loads(sys.stdin.readline())
    listeners = [Listener(**each) for each in plan["listeners"]]
    try:
        await attend(plan["host"], plan["port"], listeners)
    except* _Over:
        pass


if __name__ == "__main__":
    asyncio.run(main())
