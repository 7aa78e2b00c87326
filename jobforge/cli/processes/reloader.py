"""A worker that follows the app's source: `jobforge dev` starts it anew when a file changes."""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jobforge.cli import output
from jobforge.cli.processes.child import ChildProcess

_UNWATCHED = {"__pycache__", "node_modules"}
_DEBOUNCE_MS = 300
# More than a worker takes that gives its jobs 5 s and then ends their processes.
_EXIT_TIMEOUT_S = 15.0


class Reloader:
    """Runs one worker after the other until it is stopped. `folder` is that of the app."""

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
        """Once: drain. Twice: hand everything back."""
        self._stopping.set()
        if self._process:
            self._process.drain()

    async def _run_one(self) -> None:
        """From the start of a worker until the next one is due."""
        self._process = process = await ChildProcess.start(self._arguments, self._environment)
        if self._stopping.is_set():  # while it was being started
            process.drain()
        ended = asyncio.create_task(process.wait())
        await self._wait_for_first(ended, self._changed.wait(), self._stopping.wait())
        if self._changed.is_set() and not ended.done():
            output.note("the source has changed: the worker starts anew")
            process.drain()
        await self._wait_for_exit(process, ended)
        self._process = None
        if not self._changed.is_set() and not self._stopping.is_set():
            output.note("the worker has ended; it starts again when a file changes")
            await self._wait_for_first(self._changed.wait(), self._stopping.wait())

    async def _wait_for_exit(self, process: ChildProcess, ended: "asyncio.Task[int]") -> None:
        """A handler in its loop may block that for ever, and be what was just mended."""
        await asyncio.wait([ended], timeout=_EXIT_TIMEOUT_S)
        if not ended.done():
            output.note("the worker does not end: it is killed, and its jobs are tried again")
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
    """Something for every time that Python files or jobforge.toml beneath the folder change."""
    try:
        from watchfiles import Change, awatch
    except ImportError:
        output.note('no reload: it needs watchfiles, which comes with pip install "jobforge[dev]"')
        return

    def matters(change: Change, path: str) -> bool:
        return is_source(Path(path)) or (change is Change.added and is_watchable(Path(path)))

    while True:
        # Folder by folder: a database or an environment beneath the app would keep us busy.
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
                break  # a new folder is to be watched too


def is_source(file: Path) -> bool:
    return (file.suffix == ".py" and not file.name.startswith(".")) or file.name == "jobforge.toml"


def is_watchable(path: Path) -> bool:
    """Whether it is a folder that may hold source: not hidden, no cache, no environment."""
    if path.name.startswith(".") or path.name in _UNWATCHED:
        return False
    # A folder of somebody else's, as a database keeps it, must not end the watching.
    is_ours = path.is_dir() and os.access(path, os.R_OK | os.X_OK)
    return is_ours and not (path / "pyvenv.cfg").exists()


def source_folders(folder: Path) -> Iterator[Path]:
    try:
        children = sorted(folder.iterdir())
    except OSError:  # not ours to read, or gone meanwhile
        return
    yield folder
    for child in children:
        if is_watchable(child) and not child.is_symlink():
            yield from source_folders(child)
