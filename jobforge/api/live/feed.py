"""What a client of the live stream is sent, from its first frame to its last."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from jobforge.api.live.hub import Hub, frame_of
from jobforge.api.live.sse import HEARTBEAT_S, Frames, event, heartbeat
from jobforge.api.live.subscription import LARGEST_CHUNK, Subscription, Watch
from jobforge.errors import Invalid, JobForgeError
from jobforge.types.live_stream import StreamPage, place

# Raises when the client may no longer listen.
Check = Callable[[], Awaitable[object]]


async def feed(hub: Hub, watch: Watch, after: str | None, check: Check) -> Frames:
    """All that happens, from a position on or from now. It ends with a cut, or never."""
    try:
        reset = None
        try:
            async for page in _pages(hub, watch, after):
                after = page.position
                for frames in _chunks(page, watch):
                    yield frames
        except Invalid as error:
            after, reset = None, error.detail.get("reason", "unknown")
        async with hub.subscribed(watch) as subscription:
            if reset is not None:
                yield event("reset", {"reason": reset}, subscription.position)
            else:
                yield heartbeat(after or subscription.position)
            position = after or subscription.position
            while place(position) < place(subscription.position):
                page = await hub.replay(watch, position)
                position = page.position
                for frames in _chunks(page, watch):
                    yield frames
            subscription.skip(position)
            async for frame in _live(hub, subscription, check):
                yield frame
    except JobForgeError as error:
        yield event("cut", {"reason": error.code})


async def _pages(hub: Hub, watch: Watch, after: str | None) -> AsyncIterator[StreamPage]:
    """What the client has missed, up to about now."""
    is_complete = after is None
    while after is not None and not is_complete:
        page = await hub.replay(watch, after)
        after, is_complete = page.position, page.is_complete
        yield page


async def _live(hub: Hub, subscription: Subscription, check: Check) -> AsyncIterator[bytes]:
    checked_at = time.monotonic()
    while True:
        chunk = await subscription.take(HEARTBEAT_S)
        if time.monotonic() - checked_at >= HEARTBEAT_S:
            await check()
            checked_at = time.monotonic()
        if subscription.cut is not None:
            yield event("cut", {"reason": subscription.cut})
            return
        yield chunk or heartbeat(hub.position)


def _chunks(page: StreamPage, watch: Watch) -> Iterator[bytes]:
    """Not all at once: what has been sent and is not read, the server has to keep."""
    chunk = bytearray()
    for happening in page.happenings:
        if watch.covers(happening):
            chunk += frame_of(happening)
        if len(chunk) >= LARGEST_CHUNK:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk) or heartbeat(page.position)
