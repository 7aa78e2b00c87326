"""Frames of one live stream client: replay of missed events, then live events."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from jobforge.api.live.hub import Hub, encode_happening
from jobforge.api.live.sse import HEARTBEAT_S, SseFrames, encode_event, encode_heartbeat
from jobforge.api.live.subscription import LARGEST_CHUNK, StreamFilter, Subscription
from jobforge.errors import Invalid, JobForgeError
from jobforge.types.live_stream import StreamPage, parse_position

# Raises if the client may no longer listen.
AccessCheck = Callable[[], Awaitable[object]]


async def stream_events(
    hub: Hub, stream_filter: StreamFilter, after: str | None, check: AccessCheck
) -> SseFrames:
    """Yield events after a position, or from now on; ends with a `cut` event, if at all."""
    try:
        reset = None
        try:
            async for page in _replay_pages(hub, stream_filter, after):
                after = page.position
                for frames in _encode_page(page, stream_filter):
                    yield frames
        except Invalid as error:
            after, reset = None, error.detail.get("reason", "unknown")
        async with hub.subscribe(stream_filter) as subscription:
            if reset is not None:
                yield encode_event("reset", {"reason": reset}, subscription.position)
            else:
                yield encode_heartbeat(after or subscription.position)
            position = after or subscription.position
            while parse_position(position) < parse_position(subscription.position):
                page = await hub.replay(stream_filter, position)
                position = page.position
                for frames in _encode_page(page, stream_filter):
                    yield frames
            subscription.skip_to(position)
            async for frame in _stream_live(hub, subscription, check):
                yield frame
    except JobForgeError as error:
        yield encode_event("cut", {"reason": error.code})


async def _replay_pages(
    hub: Hub, stream_filter: StreamFilter, after: str | None
) -> AsyncIterator[StreamPage]:
    """Yield pages of the events that the client has missed, up to about now."""
    is_complete = after is None
    while after is not None and not is_complete:
        page = await hub.replay(stream_filter, after)
        after, is_complete = page.position, page.is_complete
        yield page


async def _stream_live(
    hub: Hub, subscription: Subscription, check: AccessCheck
) -> AsyncIterator[bytes]:
    checked_at = time.monotonic()
    while True:
        chunk = await subscription.take(HEARTBEAT_S)
        if time.monotonic() - checked_at >= HEARTBEAT_S:
            await check()
            checked_at = time.monotonic()
        if subscription.end_reason is not None:
            yield encode_event("cut", {"reason": subscription.end_reason})
            return
        yield chunk or encode_heartbeat(hub.position)


def _encode_page(page: StreamPage, stream_filter: StreamFilter) -> Iterator[bytes]:
    """Encode a page in chunks: the server buffers what it has sent until the client reads it."""
    chunk = bytearray()
    for happening in page.happenings:
        if stream_filter.matches(happening):
            chunk += encode_happening(happening)
        if len(chunk) >= LARGEST_CHUNK:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk) or encode_heartbeat(page.position)
