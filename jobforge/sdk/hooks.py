"""Hooks of an app: before each attempt, and once after a job has finished.

`on_start` hooks run in the attempt itself, before the handler. The other hooks run in a separate
follow-up job (hook_job.py).
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from jobforge.sdk.middleware import Middleware

if TYPE_CHECKING:
    from jobforge.sdk.context import Context

Hook = Callable[..., Any]

_log = logging.getLogger("jobforge")


class Hooks:
    """The hooks of one definition, or of the whole app."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.on_change = changed  # called after a hook was added
        self.middleware: list[Middleware] = []  # of the app
        self.start: list[Hook] = []
        self.success: list[Hook] = []
        self.fail: list[Hook] = []
        self.end: list[Hook] = []

    @property
    def follow_up_hooks(self) -> list[Hook]:
        """The hooks that run in a follow-up job."""
        return [*self.success, *self.fail, *self.end]


async def run_start_hooks(hooks: Sequence[Hook], ctx: "Context") -> None:
    """Run the hooks. A hook's failure is logged and does not fail the attempt."""
    for hook in hooks:
        await run_hook(hook, ctx)


async def run_hook(hook: Hook, *args: Any) -> Exception | None:  # noqa: ANN401 - the hook's arguments
    """Run a hook, sync or async; return its exception, or None."""
    try:
        returned: Awaitable[object] | object = hook(*args)
        if inspect.isawaitable(returned):
            await returned
    except Exception as error:  # noqa: BLE001 - a hook may raise anything
        _log.exception("Hook %s failed", getattr(hook, "__qualname__", hook))
        return error
    return None
