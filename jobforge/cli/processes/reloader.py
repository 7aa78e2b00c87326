"""Run a worker for `jobforge dev` and restart it when the app's source changes."""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jobforge.cli import output
from jobforge.cli.processes.child import ChildProcess

_UNWATCHED = {"__pycache__", "node_modules"}
_DEBOUNCE_MS = 300
# Longer than a worker's shutdown with --drain-timeout 5s.
_EXIT_TIMEOUT_S = 15.0


class Reloader:
    """Runs one worker process after another until it is stopped; watches the app's folder."""

    def __init__(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str]
    ) -> None:
        self._arguments = arguments
        self._folder = folder
        self._environment = environment
        self._changed = asyncio.Event()
        self._stopping = asyncio.Event()
        self._process: ChildProcess | None = None

    async def run(self) -> None:
        watching = asyncio.create_task(self._watch())
        try:
            while not self._stopping.is_set():
                self._changed.clear()
                await self._run_one()
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def stop(self) -> None:
        """First call: drain the worker. Second call: make it release its jobs."""
        self._stopping.set()
        if self._process:
            self._process.drain()

    async def _run_one(self) -> None:
        """Run one worker and return when the next one is to start."""
        self._process = process = await ChildProcess.start(self._arguments, self._environment)
        if self._stopping.is_set():  # stopped during the start
            process.drain()
        ended = asyncio.create_task(process.wait())
        await self._wait_for_first(ended, self._changed.wait(), self._stopping.wait())
        if self._changed.is_set() and not ended.done():
            output.note("Source changed: restarting the worker")
            process.drain()
        await self._wait_for_exit(process, ended)
        self._process = None
        if not self._changed.is_set() and not self._stopping.is_set():
            output.note("The worker has exited; it restarts when a file changes")
            await self._wait_for_first(self._changed.wait(), self._stopping.wait())

    async def _wait_for_exit(self, process: ChildProcess, ended: "asyncio.Task[int]") -> None:
        """Wait for the worker to exit; kill it after a timeout.

        An inline handler may block its event loop forever, and the change may be its fix.
        """
        await asyncio.wait([ended], timeout=_EXIT_TIMEOUT_S)
        if not ended.done():
            output.note("The worker did not exit in time: killing it; its jobs will be retried")
            process.kill()
        await ended

    async def _wait_for_first(
        self, *events: "asyncio.Task[int] | Coroutine[Any, Any, bool]"
    ) -> None:
        tasks = [asyncio.ensure_future(event) for event in events]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for given, task in zip(events, tasks, strict=True):
            if given is not task:
                task.cancel()

    async def _watch(self) -> None:
        async for _ in watch_source(self._folder):
            self._changed.set()


async def watch_source(folder: Path) -> AsyncIterator[None]:
    """Yield after each change of Python files or jobforge.toml below the folder."""
    try:
        from watchfiles import Change, awatch
    except ImportError:
        output.note('Reloading is disabled; it requires watchfiles: pip install "jobforge[dev]"')
        return

    def matters(change: Change, path: str) -> bool:
        return is_source(Path(path)) or (change is Change.added and is_watchable(Path(path)))

    while True:
        # Not recursive: a database or virtual environment below the app changes constantly.
        watched = list(source_folders(folder))
        async for changes in awatch(
            *watched,
            recursive=False,
            watch_filter=matters,
            debounce=_DEBOUNCE_MS,
            ignore_permission_denied=True,
        ):
            yield
            if any(is_watchable(Path(path)) for _, path in changes):
                break  # watch the new folder too


def is_source(file: Path) -> bool:
    return (file.suffix == ".py" and not file.name.startswith(".")) or file.name == "jobforge.toml"


def is_watchable(path: Path) -> bool:
    """Return whether this is a source folder: not hidden, not a cache, not a virtualenv."""
    if path.name.startswith(".") or path.name in _UNWATCHED:
        return False
    # A folder of another user, such as a database's, must not stop the watching.
    is_ours = path.is_dir() and os.access(path, os.R_OK | os.X_OK)
    return is_ours and not (path / "pyvenv.cfg").exists()


def source_folders(folder: Path) -> Iterator[Path]:
    try:
        children = sorted(folder.iterdir())
    except OSError:  # not readable, or deleted in the meantime
        return
    yield folder
    for child in children:
        if is_watchable(child) and not child.is_symlink():
            yield from source_folders(child)
