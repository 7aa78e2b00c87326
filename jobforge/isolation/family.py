"""The processes of a zygote's jobs: reaped, watched, and ended with all that descends from them.

A zygote adopts the descendants of its children when these end. So all that its jobs ever started
are its descendants, and what is left of a job that has ended is found among them.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from resource import struct_rusage

from jobforge.isolation import tree
from jobforge.isolation.memory import Watch
from jobforge.isolation.tree import Table
from jobforge.isolation.wire import Over
from jobforge.settings import Limits

# How often, at most, what ended jobs left running is looked for, and what the others hold. Both
# look at all processes there are.
_SWEEP_S = 0.25
_WATCH_S = 0.1
# How long killed processes may take to be gone.
_END_S = 3.0


@dataclass(slots=True)
class Child:
    """A job's process."""

    run: int
    pid: int
    mark: str
    folder: str
    limits: Limits
    started: int  # ticks since boot
    watch: Watch
    over: Over = Over.NONE


class Family:
    def __init__(self) -> None:
        self._pid = os.getpid()
        self._by_run: dict[int, Child] = {}
        self._by_pid: dict[int, Child] = {}
        self._helpers: set[int] = set()
        self._swept_at = 0.0
        self._watched_at = 0.0
        self._has_ended = False

    def add(self, child: Child) -> None:
        self._by_run[child.run] = self._by_pid[child.pid] = child

    def add_helper(self, pid: int) -> None:
        """A process of the zygote's own, which ends by itself."""
        self._helpers.add(pid)

    def get(self, run: int) -> Child | None:
        return self._by_run.get(run)

    def reap(self) -> Iterator[tuple[Child, int, struct_rusage]]:
        """The children that have ended, each once, with their status and usage."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self._has_ended = False  # nobody is there who could have been left
                return
            if pid == 0:
                return
            self._helpers.discard(pid)
            child = self._by_pid.pop(pid, None)
            if child is None:
                continue
            del self._by_run[child.run]
            tree.kill_group(pid)
            self._has_ended = True
            yield child, status, usage

    def patience_s(self) -> float | None:
        """How long until something has to be looked after."""
        moments = []
        if self._by_run:
            first = min(child.watch.due_at for child in self._by_run.values())
            moments.append(max(first, self._watched_at + _WATCH_S))
        if self._has_ended:
            moments.append(self._swept_at + _SWEEP_S)
        return max(0.0, min(moments) - time.monotonic()) if moments else None

    def look_after(self) -> None:
        """Ends what is too large, and what ended jobs left running."""
        now = time.monotonic()
        if now >= self._watched_at + _WATCH_S:
            self._watch(now)
        if self._has_ended and now >= self._swept_at + _SWEEP_S:
            self._sweep(now)

    def kill(self, child: Child) -> None:
        tree.kill(lambda: self._processes_of(child, tree.table()) or {child.pid})
        tree.kill_group(child.pid)

    def end(self) -> None:
        """Ends all of them, and returns when they have ended."""
        tree.kill(lambda: tree.descendants([self._pid], tree.table()) - {self._pid})
        for child in self._by_run.values():
            tree.kill_group(child.pid)
        deadline = time.monotonic() + _END_S
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < deadline:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.005)

    def _watch(self, now: float) -> None:
        due = [child for child in self._by_run.values() if child.watch.due_at <= now]
        if not due:
            return
        self._watched_at = now
        among = tree.table()
        for child in due:
            if child.watch.is_over(self._processes_of(child, among), now):
                child.over = Over.MEMORY
                self.kill(child)

    def _sweep(self, now: float) -> None:
        self._swept_at = now
        self._has_ended = False
        among = tree.table()
        left = [pid for pid in self._adopted(among) if self._is_left(among[pid])]
        if left:
            tree.kill(lambda: tree.descendants(left, tree.table()))

    def _processes_of(self, child: Child, among: Table) -> set[int]:
        """Its descendants, and those of them that became ours when their parents ended."""
        adopted = [pid for pid in self._adopted(among) if self._owner(among[pid]) is child]
        return tree.descendants([child.pid, *adopted], among) & among.keys()

    def _adopted(self, among: Table) -> list[int]:
        return [
            process.pid
            for process in tree.living(among)
            if process.parent == self._pid
            and process.pid not in self._by_pid
            and process.pid not in self._helpers
        ]

    def _owner(self, process: tree.Process) -> Child | None:
        leader = self._by_pid.get(process.session)
        if leader is not None:
            return leader
        mark = tree.mark_of(process.pid)
        return next((child for child in self._by_run.values() if child.mark == mark), None)

    def _is_left(self, process: tree.Process) -> bool:
        if self._owner(process) is not None:
            return False
        if tree.mark_of(process.pid) is not None:
            return True
        # It hides whose it is. It may be of any job that started before it and still runs; it is
        # looked at again when that one has ended.
        return all(child.started > process.started for child in self._by_run.values())
