"""Server-sent events: encoding, and the response that streams them.

A client that does not read for 30 seconds is disconnected; otherwise its unsent data would stay
buffered forever.
"""

import asyncio
from asyncio import Task
from collections.abc import AsyncGenerator, Callable

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from jobforge.api.responses import encode

HEARTBEAT_S = 15.0
SEND_TIMEOUT_S = 30.0

SseFrames = AsyncGenerator[bytes, None]


def encode_event(name: str, data: object, position: str | None = None) -> bytes:
    """Encode an event; clients send `position` back as Last-Event-ID."""
    return b"%sevent: %s\ndata: %s\n\n" % (_encode_id(position), name.encode(), encode(data))


def encode_heartbeat(position: str | None = None) -> bytes:
    """Encode a comment; its id tells the client its position."""
    return b": heartbeat\n%s\n" % _encode_id(position)


def _encode_id(position: str | None) -> bytes:
    return b"" if position is None else b"id: %s\n" % position.encode()


class EventStream(Response):
    """Streams frames until they end or the client disconnects."""

    media_type = "text/event-stream"

    def __init__(self, frames: SseFrames, on_end: Callable[[], None]) -> None:
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(headers=headers)
        del self.headers["content-length"]
        self._frames = frames
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI signature
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        try:
            await send(start)
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(self._send(send))
                watching = group.create_task(_cancel_on_disconnect(receive, sending))
                sending.add_done_callback(lambda _: watching.cancel())
        finally:
            self._on_end()
            await self._frames.aclose()

    async def _send(self, send: Send) -> None:
        try:
            async for frame in self._frames:
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await send({"type": "http.response.body", "body": frame, "more_body": True})
        except TimeoutError:
            return
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _cancel_on_disconnect(receive: Receive, sending: Task[None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    sending.cancel()
