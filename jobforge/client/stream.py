"""Client of the live stream: server-sent events with automatic reconnection."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

import httpx2

from jobforge.client.errors import error_from_response, error_from_transport
from jobforge.client.request import encode_query
from jobforge.errors import Json, TooManyRequests, Unavailable
from jobforge.timing.backoff import ExponentialBackoff
from jobforge.types.jsonb import decode

if TYPE_CHECKING:
    from jobforge.client.transport import AsyncTransport, Transport

# The server sends a keepalive every 15 s.
_SILENT_S = 45.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.2, 15.0


@dataclass(frozen=True, slots=True)
class StreamEvent:
    """An event of the live stream (docs/live-stream.md); `id` is its position in the stream."""

    name: str  # `attempt`, `event`, `snapshot`, `reset` or `cut`
    data: Json
    id: str | None  # position in the stream, to continue after it


class StreamState:
    """State of one stream: its filters, its position, and its reconnection backoff."""

    def __init__(
        self,
        jobs: Sequence[UUID],
        definitions: Sequence[str],
        states: Sequence[str],
        after: str | None,
    ) -> None:
        self.last_id = after
        self._query = encode_query({"job": jobs, "definition": definitions, "state": states})
        self._lines: dict[str, str] = {}
        self._backoff = ExponentialBackoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)

    def request_kwargs(self) -> dict[str, Json]:
        headers = {} if self.last_id is None else {"last-event-id": self.last_id}
        return {
            "method": "GET",
            "url": "/stream",
            "params": self._query,
            "headers": headers,
            "timeout": httpx2.Timeout(_SILENT_S),
        }

    def feed_line(self, line: str) -> StreamEvent | None:
        """Parse a line; return the event that the line completes, if any."""
        if line:
            label, _, text = line.partition(":")
            self._lines[label] = text.removeprefix(" ")
            return None
        lines, self._lines = self._lines, {}
        self._backoff.reset()
        self.last_id = lines.get("id", self.last_id)
        if "data" not in lines:
            return None
        return StreamEvent(lines.get("event", "message"), decode(lines["data"]), self.last_id)

    def next_pause_s(self) -> float:
        """Return the pause before reconnecting; doubles until data arrives again."""
        self._lines = {}
        return self._backoff.next_pause_s()


def read(transport: "Transport", reading: StreamState) -> Iterator[StreamEvent]:
    """Yield events; reconnect after each interruption."""
    while True:
        try:
            with transport.http.stream(**reading.request_kwargs()) as response:
                if not response.is_success:
                    response.read()
                    raise error_from_response(response)
                yield from filter(None, map(reading.feed_line, response.iter_lines()))
        except (httpx2.HTTPError, Unavailable, TooManyRequests) as error:
            _raise_before_first_event(reading, error, transport.address.url)
        time.sleep(reading.next_pause_s())


async def aread(transport: "AsyncTransport", reading: StreamState) -> AsyncIterator[StreamEvent]:
    """Async twin of `read`."""
    while True:
        try:
            async with transport.http.stream(**reading.request_kwargs()) as response:
                if not response.is_success:
                    await response.aread()
                    raise error_from_response(response)
                async for line in response.aiter_lines():
                    event = reading.feed_line(line)
                    if event is not None:
                        yield event
        except (httpx2.HTTPError, Unavailable, TooManyRequests) as error:
            _raise_before_first_event(reading, error, transport.address.url)
        await asyncio.sleep(reading.next_pause_s())


def _raise_before_first_event(reading: StreamState, error: Exception, url: str) -> None:
    """Raise if no position is known yet, so that the first connection fails loudly."""
    if reading.last_id is not None:
        return
    raise error_from_transport(error, url) if isinstance(error, httpx2.HTTPError) else error
