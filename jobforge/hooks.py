"""What an app does around its jobs: before an attempt, and once after a job's end.

`on_start` runs in the attempt itself, before the handler. The others run in a job of their own that
the engine enqueues when the job ends, whoever ended it: its worker, the reaper, a cancel, its
expiry. That job is retried like any other, so a hook that failed runs again, and with it the hooks
beside it.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import BaseModel

from jobforge.errors import Json
from jobforge.job import State

if TYPE_CHECKING:
    from jobforge.context import Context

Hook = Callable[..., Any]

_log = logging.getLogger("jobforge")


class Ended(BaseModel):
    """What the engine tells of a job that has ended: the payload of the job that runs its hooks."""

    job_id: UUID
    definition: str
    version: int
    state: State
    attempt: int
    payload: dict[str, Json] = {}
    error: dict[str, Json] | None = None
    result: Json = None
    reason: str | None = None


class Hooks:
    """The hooks of one definition, or of the whole app."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.changed = changed  # called after one was added
        self.start: list[Hook] = []
        self.success: list[Hook] = []
        self.fail: list[Hook] = []
        self.end: list[Hook] = []

    @property
    def follow_up(self) -> list[Hook]:
        """Those that need a job of their own."""
        return [*self.success, *self.fail, *self.end]


async def run_start_hooks(hooks: Sequence[Hook], ctx: "Context") -> None:
    """One that fails is logged; the attempt goes on."""
    for hook in hooks:
        await _run(hook, ctx)


async def run_hooks(groups: Sequence[Hooks], ctx: "Context", ended: Ended, result: Any) -> None:  # noqa: ANN401 - what the job returned
    """All of them, also when one fails; then the first failure is raised."""
    failures = [
        failure
        for group in groups
        for hook, about in _due(group, ended, result)
        if (failure := await _run(hook, ctx, *about)) is not None
    ]
    if failures:
        raise failures[0]


def _due(hooks: Hooks, ended: Ended, result: Any) -> list[tuple[Hook, tuple[Any, ...]]]:  # noqa: ANN401 - as above
    due: list[tuple[Hook, tuple[Any, ...]]] = []
    if ended.state is State.SUCCEEDED:
        due += [(hook, (result,)) for hook in hooks.success]
    if ended.state is State.DEAD:
        due += [(hook, (ended.error or {},)) for hook in hooks.fail]
    return due + [(hook, (ended.state,)) for hook in hooks.end]


async def _run(hook: Hook, *about: Any) -> Exception | None:  # noqa: ANN401 - as above
    try:
        answer: Awaitable[object] | object = hook(*about)
        if inspect.isawaitable(answer):
            await answer
    except Exception as error:  # noqa: BLE001 - whatever the hook of an app raises
        _log.exception("the hook %s failed", getattr(hook, "__qualname__", hook))
        return error
    return None
