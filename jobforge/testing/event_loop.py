"""The event loop that async handlers run on in a test, and a place where no loop runs.

Tests may be async themselves: their loop is running then, and nothing may wait in it for another
one. So what the kit does goes on in a thread of its own in that case, while the test waits.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class HandlerLoop:
    """One loop for all handlers of a test; made when the first one needs it."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(coroutine, context=copy_context())

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()


def run_outside_loops(function: Callable[[], T]) -> T:
    """Calls the function where no event loop runs: in this thread, if that is such a place."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, function).result()
