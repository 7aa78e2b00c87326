"""The processes of a zygote's jobs: reaped, watched, and ended with all that descends from them.

A zygote adopts the descendants of its children when these end. So all that its jobs ever started
are its descendants, and what is left of a job that has ended is found among them.
"""

import contextlib
import math
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from resource import struct_rusage
from typing import TYPE_CHECKING

from jobforge.sdk.settings import Limits
from jobforge.worker.isolation import proc
from jobforge.worker.isolation.frames import Over
from jobforge.worker.isolation.memory_watch import SOONEST_S, Watch
from jobforge.worker.isolation.proc import Table

if TYPE_CHECKING:
    from jobforge.worker.isolation.sandbox import Sandbox, Sandboxes

# How often, at most, what ended jobs left running is looked for, and what the others hold. Both
# look at all processes there are.
_SWEEP_S = 0.25
_WATCH_S = 0.1
# How long it may take until jobs are served again.
_SWEEPING_S = 0.1
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
    sandbox: "Sandbox | None" = None
    watch: Watch | None = None  # most end before it is due
    over: Over = Over.NONE

    @property
    def due_at(self) -> float:
        """When what it holds is to be looked at."""
        if self.sandbox is not None and self.sandbox.cgroup is not None:
            return math.inf  # the kernel looks
        return self.started + SOONEST_S if self.watch is None else self.watch.due_at


class Family:
    """After a fork each page that this uses is copied anew: what every job needs is kept short."""

    def __init__(self, sandboxes: "Sandboxes | None", processes: int) -> None:
        self._sandboxes = sandboxes
        self._most_processes = processes
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
        self._look_at = min(self._look_at, child.due_at)

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
                if self._sandboxes is not None:
                    self._sandboxes.lose(pid)
                continue
            del self._by_run[child.run]
            if self._sandboxes is None or child.sandbox is None:
                self._leave(pid)
            else:
                self._clear(child, status, child.sandbox, self._sandboxes)
            yield child, status, usage

    def _leave(self, pid: int) -> None:
        """What the job has left is looked for later, for all that have ended until then."""
        proc.kill_group(pid)
        if not self._has_ended:
            self._has_ended = True
            self._look_at = min(self._look_at, self._swept_at + _SWEEP_S)

    def _clear(self, child: Child, status: int, sandbox: "Sandbox", sandboxes: "Sandboxes") -> None:
        is_out_of_memory = sandbox.cgroup is not None and sandbox.cgroup.ran_out_of_memory()
        if is_out_of_memory and os.WIFSIGNALED(status):
            child.over = Over.MEMORY
        sandboxes.give_back(sandbox, self._known())

    def _known(self) -> set[int]:
        """The children of this process that no job has left."""
        keepers = set() if self._sandboxes is None else self._sandboxes.keepers
        return {*self._by_pid, *self._helpers, *keepers}

    def patience_s(self) -> float | None:
        """How long until something has to be looked after."""
        return None if self._look_at == math.inf else max(0.0, self._look_at - proc.now())

    def look_after(self) -> None:
        """Ends what is too large, and what ended jobs left running."""
        now = proc.now()
        if now < self._look_at:
            return
        if now >= self._watched_at + _WATCH_S:
            self._watch(now)
        if self._has_ended and now >= self._swept_at + _SWEEP_S:
            self._sweep(now)
        self._look_at = self._next_look()

    def kill(self, child: Child) -> None:
        if self._sandboxes is not None and child.sandbox is not None:
            self._sandboxes.kill(child.sandbox)
            return
        proc.kill(lambda: self._processes_of(child, proc.table()) or {child.pid})
        proc.kill_group(child.pid)

    def end(self) -> None:
        """Ends all of them, and returns when they have ended."""
        if self._sandboxes is not None:
            self._sandboxes.end()
        proc.kill(lambda: proc.descendants([self._pid], proc.table()) - {self._pid})
        for child in self._by_run.values():
            proc.kill_group(child.pid)
        deadline = time.monotonic() + _END_S
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < deadline:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.005)
        if self._sandboxes is not None:
            self._sandboxes.close()

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
        among = proc.table()
        for child in due:
            if child.watch is None:
                child.watch = Watch(child.limits.memory_bytes, self._pid, now, child.sandbox)
            processes = self._processes_of(child, among)
            if child.watch.is_over(processes, now):
                child.over = Over.MEMORY
                self.kill(child)
            elif len(processes) > self._most_processes:
                child.over = Over.PROCESSES
                self.kill(child)

    def _sweep(self, now: float) -> None:
        """Kill what ended jobs have left.

        When a process dies its children become this one's. So each pass kills all that is left,
        and the next one finds what was forked meanwhile, until there is nothing left.
        """
        self._swept_at = now
        self._has_ended = False
        known = self._known()
        while (left := self._left(known)) is not None:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if proc.now() > now + _SWEEPING_S:
                self._has_ended = True  # continue at the next look
                return

    def _left(self, known: set[int]) -> list[int] | None:
        """Children of this process that ended jobs have left; None when there are none."""
        children = proc.children(self._pid)
        if children is None:
            children = set(self._adopted(proc.table()))
        left, is_over = [], True
        for pid in children - known:
            process = proc.process(pid)
            if process is None or process.is_zombie:
                # It may have forked since the children were listed.
                is_over = False
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            elif self._is_left(process):
                left.append(pid)
                is_over = False
        return None if is_over else left

    def _is_alone(self) -> bool:
        """Whether there is surely nobody that it does not know; no look at all processes."""
        children = proc.children(self._pid)
        return children is not None and not children - self._known()

    def _processes_of(self, child: Child, among: Table) -> set[int]:
        """Its descendants, and those of them that became ours when their parents ended."""
        if child.sandbox is not None:
            return child.sandbox.processes(child.pid, self._adopted(among), among) & among.keys()
        adopted = [pid for pid in self._adopted(among) if self._owner(among[pid]) is child]
        return proc.descendants([child.pid, *adopted], among) & among.keys()

    def _adopted(self, among: Table) -> list[int]:
        known = self._known()
        return [
            process.pid
            for process in proc.living(among)
            if process.parent == self._pid and process.pid not in known
        ]

    def _owner(self, process: proc.Process) -> Child | None:
        leader = self._by_pid.get(process.session)
        if leader is not None:
            return leader
        mark = proc.mark_of(process.pid)
        return next((child for child in self._by_run.values() if child.mark == mark), None)

    def _is_left(self, process: proc.Process) -> bool:
        if self._owner(process) is not None:
            return False
        if proc.mark_of(process.pid) is not None:
            return True
        # It hides whose it is. It may be of any job that started before it and still runs; it is
        # looked at again when that one has ended.
        started = [proc.ticks(child.started) for child in self._by_run.values()]
        return all(ticks > process.started for ticks in started)
