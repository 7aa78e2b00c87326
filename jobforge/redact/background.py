"""Redacts long texts in threads, so that the event loop stays free for leases and heartbeats.

The threads are separate from those of `asyncio.to_thread`, which slow DNS lookups may occupy.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import cache, partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# In characters or bytes; redacting this much takes a few milliseconds.
LARGE = 16 * 1024
_THREADS = 2


async def run_off_loop(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `work`, in a thread if its input is large."""
    if size <= LARGE:
        return work(*args, **kwargs)
    loop = asyncio.get_running_loop()
    within = partial(copy_context().run, work, *args, **kwargs)
    return await loop.run_in_executor(_threads(), within)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="jobforge-redaction")
