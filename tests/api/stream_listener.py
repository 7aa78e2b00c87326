"""A client of the live stream that reads events and remembers the last ID, as browsers do."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx2
from api.api_server import API, ApiServer, TenantKeys


@dataclass(slots=True)
class StreamListener:
    """The events that one client has received."""

    events: list[tuple[str, Any]] = field(default_factory=list)
    last_id: str | None = None
    has_ended: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def jobs(self, kind: str = "attempt") -> list[UUID]:
        return [UUID(data["job_id"]) for name, data in self.events if name == kind]

    def data_of(self, name: str) -> list[Any]:
        return [data for received, data in self.events if received == name]

    async def until(self, condition: Callable[["StreamListener"], bool]) -> None:
        async with asyncio.timeout(30):
            while not condition(self):
                self.changed.clear()
                await self.changed.wait()

    async def read(self, lines: AsyncIterator[str]) -> None:
        name, data, last_id = "message", None, None
        async for line in lines:
            label, _, text = line.partition(": ")
            match label:
                case "id":
                    last_id = text
                case "event":
                    name = text
                case "data":
                    data = json.loads(text)
                case "" if not text:
                    self.last_id = last_id or self.last_id
                    if data is not None:
                        self.events.append((name, data))
                    name, data, last_id = "message", None, None
                    self.changed.set()
        self.has_ended = True
        self.changed.set()


@asynccontextmanager
async def listen_to_stream(
    api: ApiServer,
    party: TenantKeys | None,
    path: str = "/stream",
    *,
    url: str | None = None,
    last_id: str | None = None,
    filters: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> AsyncIterator[StreamListener]:
    """Connect to the stream and wait for its first ID; without a tenant, connect as super admin."""
    key = api.super_key if party is None else party.keys["viewer"]
    given = {"authorization": f"Bearer {key}", **(headers or {})}
    if last_id is not None:
        given["last-event-id"] = last_id
    listener = StreamListener(last_id=last_id)
    async with (
        httpx2.AsyncClient(base_url=(url or api.url) + API, trust_env=False, timeout=30) as client,
        client.stream("GET", path, headers=given, params=filters or {}) as response,
    ):
        assert response.status_code == 200, await response.aread()
        reading = asyncio.create_task(listener.read(response.aiter_lines()))
        try:
            await listener.until(lambda it: it.has_ended or it.last_id is not None)
            yield listener
        finally:
            reading.cancel()
            await asyncio.wait([reading])
