"""What an app does around its jobs: before an attempt, and once after a job's end.

`on_start` runs in the attempt itself, before the handler. The others run in a job of their own
(hook_job.py).
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jobforge.sdk.context import Context

Hook = Callable[..., Any]

_log = logging.getLogger("jobforge")


class Hooks:
    """The hooks of one definition, or of the whole app."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.on_change = changed  # called after one was added
        self.start: list[Hook] = []
        self.success: list[Hook] = []
        self.fail: list[Hook] = []
        self.end: list[Hook] = []

    @property
    def follow_up_hooks(self) -> list[Hook]:
        """Those that need a job of their own."""
        return [*self.success, *self.fail, *self.end]


async def run_start_hooks(hooks: Sequence[Hook], ctx: "Context") -> None:
    """One that fails is logged; the attempt goes on."""
    for hook in hooks:
        await run_hook(hook, ctx)


async def run_hook(hook: Hook, *about: Any) -> Exception | None:  # noqa: ANN401 - what it is told
    """How it failed, if it did."""
    try:
        answer: Awaitable[object] | object = hook(*about)
        if inspect.isawaitable(answer):
            await answer
    except Exception as error:  # noqa: BLE001 - whatever the hook of an app raises
        _log.exception("the hook %s failed", getattr(hook, "__qualname__", hook))
        return error
    return None
