"""Client of the live stream and of job logs: server-sent events with automatic reconnection."""

import asyncio
import time
from collections.abc import AsyncGenerator, Generator, Iterator, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

import httpx2

from jobforge.calls.job_log import NOTE_KINDS, JobLogReader
from jobforge.calls.results import read_document
from jobforge.client.errors import error_from_response, error_from_transport
from jobforge.client.request import TENANT_HEADER, encode_query
from jobforge.errors import Json, TooManyRequests, Unavailable
from jobforge.timing.backoff import ExponentialBackoff
from jobforge.types.job_history import JobEvent
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
        path: str,
        filters: dict[str, Json],
        *,
        after: str | None,
        tenant_id: UUID | None = None,
    ) -> None:
        self.last_id = after
        self.is_connected = False  # whether the server has accepted a connection
        self._path = path
        self._query = encode_query(filters)
        self._headers = {} if tenant_id is None else {TENANT_HEADER: str(tenant_id)}
        self._lines: dict[str, str] = {}
        self._backoff = ExponentialBackoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)

    @property
    def can_reconnect(self) -> bool:
        """Whether the events continue without a gap; a failed first connection must be visible."""
        return self.last_id is not None

    def request_kwargs(self) -> dict[str, Json]:
        position = {} if self.last_id is None else {"last-event-id": self.last_id}
        return {
            "method": "GET",
            "url": self._path,
            "params": self._query,
            "headers": {**self._headers, **position},
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


class JobLogState(StreamState):
    """State of the stream of one job's notes. Reconnecting repeats and loses none of them."""

    def __init__(
        self, job_id: UUID, after: datetime | None, *, tenant_id: UUID | None = None
    ) -> None:
        super().__init__(
            f"/jobs/{job_id}/logs",
            {"follow": True, "kind": NOTE_KINDS},
            after=None,
            tenant_id=tenant_id,
        )
        self._log = JobLogReader(job_id, after=after)

    @property
    def can_reconnect(self) -> bool:
        return self.is_connected

    def request_kwargs(self) -> dict[str, Json]:
        after = self._log.after
        self.last_id = None if after is None else after.isoformat()
        return super().request_kwargs()

    def take_new(self, event: StreamEvent) -> list[JobEvent]:
        """Return the event's note if it is new, or the job's end. The server's `cut` is neither."""
        if event.name == "cut":
            return []
        if event.name == "end":
            data = {"state": event.data["state"]}
            return [read_document(JobEvent, {**event.data, "kind": "end", "data": data})]
        return self._log.take_new([read_document(JobEvent, event.data)])


def stream_jobs(
    jobs: Sequence[UUID], definitions: Sequence[str], states: Sequence[str], after: str | None
) -> StreamState:
    """Return the state of a stream of a tenant's jobs."""
    filters = {"job": jobs, "definition": definitions, "state": states}
    return StreamState("/stream", filters, after=after)


def follow(transport: "Transport", reading: JobLogState) -> Iterator[JobEvent]:
    """Yield a job's notes and its end."""
    with closing(read(transport, reading)) as events:
        for event in events:
            yield from reading.take_new(event)
            if event.name == "end":
                return


async def afollow(
    transport: "AsyncTransport", reading: JobLogState
) -> AsyncGenerator[JobEvent, None]:
    """Async twin of `follow`."""
    async with aclosing(aread(transport, reading)) as events:
        async for event in events:
            for note in reading.take_new(event):
                yield note
            if event.name == "end":
                return


def read(transport: "Transport", reading: StreamState) -> Generator[StreamEvent, None, None]:
    """Yield events; reconnect after each interruption."""
    while True:
        try:
            with transport.http.stream(**reading.request_kwargs()) as response:
                if not response.is_success:
                    response.read()
                    raise error_from_response(response)
                reading.is_connected = True
                yield from filter(None, map(reading.feed_line, response.iter_lines()))
        except (httpx2.HTTPError, Unavailable, TooManyRequests) as error:
            _raise_before_reconnecting(reading, error, transport.address.url)
        time.sleep(reading.next_pause_s())


async def aread(
    transport: "AsyncTransport", reading: StreamState
) -> AsyncGenerator[StreamEvent, None]:
    """Async twin of `read`."""
    while True:
        try:
            async with transport.http.stream(**reading.request_kwargs()) as response:
                if not response.is_success:
                    await response.aread()
                    raise error_from_response(response)
                reading.is_connected = True
                async for line in response.aiter_lines():
                    event = reading.feed_line(line)
                    if event is not None:
                        yield event
        except (httpx2.HTTPError, Unavailable, TooManyRequests) as error:
            _raise_before_reconnecting(reading, error, transport.address.url)
        await asyncio.sleep(reading.next_pause_s())


def _raise_before_reconnecting(reading: StreamState, error: Exception, url: str) -> None:
    """Raise unless a new connection can continue the stream."""
    if reading.can_reconnect:
        return
    raise error_from_transport(error, url) if isinstance(error, httpx2.HTTPError) else error
