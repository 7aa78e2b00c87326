"""Run async handlers on a separate event loop, also from async tests.

An event loop cannot run inside another one. In an async test the kit therefore works in a separate
thread while the test waits.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


class HandlerLoop:
    """One event loop for all handlers of a test, created on first use."""

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
    """Call the function in this thread, or in a new one if this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, function).result()
