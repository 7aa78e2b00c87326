"""The processes of a zygote's jobs: reaped, watched, and ended with all that descends from them.

A zygote adopts the descendants of its children when these end. So all that its jobs ever started
are its descendants, and what is left of a job that has ended is found among them.
"""

import contextlib
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from resource import struct_rusage

from jobforge.isolation import tree
from jobforge.isolation.memory import SOONEST_S, Watch
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
    started: float  # seconds since boot
    watch: Watch | None = None  # most end before it is due
    over: Over = Over.NONE

    @property
    def due_at(self) -> float:
        """When what it holds is to be looked at."""
        return self.started + SOONEST_S if self.watch is None else self.watch.due_at


class Family:
    """After a fork each page that this uses is copied anew: what every job needs is kept short."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._by_run: dict[int, Child] = {}
        self._by_pid: dict[int, Child] = {}
        self._helpers: set[int] = set()
        self._swept_at = 0.0
        self._watched_at = 0.0
        self._has_ended = False
        self._look_at = math.inf

    def add(self, child: Child) -> None:
        self._by_run[child.run] = self._by_pid[child.pid] = child
        self._look_at = min(self._look_at, child.started + SOONEST_S)

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
            child = self._by_pid.pop(pid, None)
            if child is None:
                self._helpers.discard(pid)
                continue
            del self._by_run[child.run]
            tree.kill_group(pid)
            if not self._has_ended:
                self._has_ended = True
                self._look_at = min(self._look_at, self._swept_at + _SWEEP_S)
            yield child, status, usage

    def patience_s(self) -> float | None:
        """How long until something has to be looked after."""
        return None if self._look_at == math.inf else max(0.0, self._look_at - tree.now())

    def look_after(self) -> None:
        """Ends what is too large, and what ended jobs left running."""
        now = tree.now()
        if now < self._look_at:
            return
        if now >= self._watched_at + _WATCH_S:
            self._watch(now)
        if self._has_ended and now >= self._swept_at + _SWEEP_S:
            self._sweep(now)
        self._look_at = self._next_look()

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

    def _next_look(self) -> float:
        look_at = self._swept_at + _SWEEP_S if self._has_ended else math.inf
        if self._by_run:
            first = min(child.due_at for child in self._by_run.values())
            look_at = min(look_at, max(first, self._watched_at + _WATCH_S))
        return look_at

    def _watch(self, now: float) -> None:
        due = [child for child in self._by_run.values() if child.due_at <= now]
        if not due:
            return
        self._watched_at = now
        among = tree.table()
        for child in due:
            if child.watch is None:
                child.watch = Watch(child.limits.memory_bytes, self._pid, now)
            if child.watch.is_over(self._processes_of(child, among), now):
                child.over = Over.MEMORY
                self.kill(child)

    def _sweep(self, now: float) -> None:
        self._swept_at = now
        self._has_ended = False
        if self._is_alone():
            return
        among = tree.table()
        left = [pid for pid in self._adopted(among) if self._is_left(among[pid])]
        if left:
            tree.kill(lambda: tree.descendants(left, tree.table()))

    def _is_alone(self) -> bool:
        """Whether there is surely nobody that it does not know; no look at all processes."""
        children = tree.children(self._pid)
        return children is not None and not children - self._by_pid.keys() - self._helpers

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
        started = [tree.ticks(child.started) for child in self._by_run.values()]
        return all(ticks > process.started for ticks in started)
