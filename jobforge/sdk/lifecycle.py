"""Lifecycle hooks of an app: functions that run when a worker or a job's process starts or stops.

They open and close what handlers share, such as a connection pool. hooks.py has the hooks that
belong to single jobs.
"""

import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from jobforge.errors import Invalid

LifecycleHook = Callable[[], Any]
L = TypeVar("L", bound=LifecycleHook)

_log = logging.getLogger("jobforge")


@dataclass(frozen=True, slots=True)
class ProcessHooks:
    """The hooks of processes, which run in code that has no event loop."""

    zygote_start: list[LifecycleHook] = field(default_factory=list)
    start: list[LifecycleHook] = field(default_factory=list)
    stop: list[LifecycleHook] = field(default_factory=list)

    def run_zygote_start(self) -> None:
        for hook in self.zygote_start:
            hook()

    @contextmanager
    def run_around(self) -> Iterator[None]:
        """Run the start hooks before the block and the stop hooks after it.

        A failure of a start hook is raised; one of a stop hook is logged.
        """
        for hook in self.start:
            hook()
        try:
            yield
        finally:
            for hook in self.stop:
                try:
                    hook()
                except Exception:  # noqa: BLE001 - a hook may raise anything
                    _log_failure(hook)


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """All lifecycle hooks of an app, each list in the order of registration."""

    processes: ProcessHooks = field(default_factory=ProcessHooks)
    worker_start: list[LifecycleHook] = field(default_factory=list)
    worker_stop: list[LifecycleHook] = field(default_factory=list)

    async def run_worker_start(self) -> None:
        for hook in self.worker_start:
            await _call(hook)

    async def run_worker_stop(self) -> None:
        """Run the stop hooks. A hook's failure is logged, and the worker continues to stop."""
        for hook in self.worker_stop:
            try:
                await _call(hook)
            except Exception:  # noqa: BLE001 - a hook may raise anything
                _log_failure(hook)


def add_sync_hook(hooks: list[LifecycleHook], hook: L) -> L:
    """Add the hook of a process; raise Invalid if it is async."""
    if inspect.iscoroutinefunction(hook):
        raise Invalid(
            f"The hook {hook.__qualname__} is async, but hooks of a process must be sync",
            hint="Use an async middleware, which runs in the event loop of its handler",
        )
    hooks.append(hook)
    return hook


async def _call(hook: LifecycleHook) -> None:
    returned = hook()
    if inspect.isawaitable(returned):
        await returned


def _log_failure(hook: LifecycleHook) -> None:
    _log.exception("Hook %s failed", getattr(hook, "__qualname__", hook))
