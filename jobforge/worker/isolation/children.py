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

from jobforge.sdk.settings import ProcessLimits
from jobforge.worker.isolation import proc
from jobforge.worker.isolation.frames import ExceededLimit
from jobforge.worker.isolation.memory_watch import MIN_INTERVAL_S, MemoryWatch
from jobforge.worker.isolation.proc import ProcTable

if TYPE_CHECKING:
    from jobforge.worker.isolation.sandbox import Sandbox, Sandboxes

# How often, at most, what ended jobs left running is looked for, and what the others hold. Both
# look at all processes there are.
_SWEEP_S = 0.25
_MEMORY_CHECK_INTERVAL_S = 0.1
# How long it may take until jobs are served again.
_SWEEPING_S = 0.1
# How long killed processes may take to be gone.
_KILL_TIMEOUT_S = 3.0


@dataclass(slots=True)
class Child:
    """A job's process."""

    run: int
    pid: int
    mark: str
    folder: str
    limits: ProcessLimits
    started: float  # seconds since boot
    sandbox: "Sandbox | None" = None
    memory_watch: MemoryWatch | None = None  # most end before it is due
    exceeded: ExceededLimit = ExceededLimit.NONE

    @property
    def due_at(self) -> float:
        """When what it holds is to be looked at."""
        if self.sandbox is not None and self.sandbox.cgroup is not None:
            return math.inf  # the kernel looks
        return (
            self.started + MIN_INTERVAL_S if self.memory_watch is None else self.memory_watch.due_at
        )


class ChildTable:
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
        self._needs_sweep = False
        self._next_check_at = math.inf

    def add(self, child: Child) -> None:
        self._by_run[child.run] = self._by_pid[child.pid] = child
        self._next_check_at = min(self._next_check_at, child.due_at)

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
                self._needs_sweep = False  # nobody is there who could have been left
                return
            if pid == 0:
                return
            child = self._by_pid.pop(pid, None)
            if child is None:
                self._helpers.discard(pid)
                if self._sandboxes is not None:
                    self._sandboxes.discard_keeper(pid)
                continue
            del self._by_run[child.run]
            if self._sandboxes is None or child.sandbox is None:
                self._schedule_sweep(pid)
            else:
                self._release_sandbox(child, status, child.sandbox, self._sandboxes)
            yield child, status, usage

    def _schedule_sweep(self, pid: int) -> None:
        """What the job has left is looked for later, for all that have ended until then."""
        proc.kill_group(pid)
        if not self._needs_sweep:
            self._needs_sweep = True
            self._next_check_at = min(self._next_check_at, self._swept_at + _SWEEP_S)

    def _release_sandbox(
        self, child: Child, status: int, sandbox: "Sandbox", sandboxes: "Sandboxes"
    ) -> None:
        is_out_of_memory = sandbox.cgroup is not None and sandbox.cgroup.ran_out_of_memory()
        if is_out_of_memory and os.WIFSIGNALED(status):
            child.exceeded = ExceededLimit.MEMORY
        sandboxes.release(sandbox, self._known_pids())

    def _known_pids(self) -> set[int]:
        """The children of this process that no job has left."""
        keepers = set() if self._sandboxes is None else self._sandboxes.keepers
        return {*self._by_pid, *self._helpers, *keepers}

    def next_check_s(self) -> float | None:
        """How long until something has to be looked after."""
        return (
            None if self._next_check_at == math.inf else max(0.0, self._next_check_at - proc.now())
        )

    def run_checks(self) -> None:
        """Ends what is too large, and what ended jobs left running."""
        now = proc.now()
        if now < self._next_check_at:
            return
        if now >= self._watched_at + _MEMORY_CHECK_INTERVAL_S:
            self._check_memory(now)
        if self._needs_sweep and now >= self._swept_at + _SWEEP_S:
            self._sweep(now)
        self._next_check_at = self._compute_next_check()

    def kill(self, child: Child) -> None:
        if self._sandboxes is not None and child.sandbox is not None:
            self._sandboxes.kill(child.sandbox)
            return
        proc.kill_all(lambda: self._find_processes(child, proc.read_table()) or {child.pid})
        proc.kill_group(child.pid)

    def kill_all(self) -> None:
        """Ends all of them, and returns when they have ended."""
        if self._sandboxes is not None:
            self._sandboxes.kill_all()
        proc.kill_all(lambda: proc.find_descendants([self._pid], proc.read_table()) - {self._pid})
        for child in self._by_run.values():
            proc.kill_group(child.pid)
        deadline = time.monotonic() + _KILL_TIMEOUT_S
        with contextlib.suppress(ChildProcessError):
            while time.monotonic() < deadline:
                if os.waitpid(-1, os.WNOHANG)[0] == 0:
                    time.sleep(0.005)
        if self._sandboxes is not None:
            self._sandboxes.close()

    def _compute_next_check(self) -> float:
        look_at = self._swept_at + _SWEEP_S if self._needs_sweep else math.inf
        if self._by_run:
            first = min(child.due_at for child in self._by_run.values())
            look_at = min(look_at, max(first, self._watched_at + _MEMORY_CHECK_INTERVAL_S))
        return look_at

    def _check_memory(self, now: float) -> None:
        due = [child for child in self._by_run.values() if child.due_at <= now]
        if not due:
            return
        self._watched_at = now
        among = proc.read_table()
        for child in due:
            if child.memory_watch is None:
                child.memory_watch = MemoryWatch(
                    child.limits.memory_bytes, self._pid, now, child.sandbox
                )
            processes = self._find_processes(child, among)
            if child.memory_watch.is_over(processes, now):
                child.exceeded = ExceededLimit.MEMORY
                self.kill(child)
            elif len(processes) > self._most_processes:
                child.exceeded = ExceededLimit.PROCESSES
                self.kill(child)

    def _sweep(self, now: float) -> None:
        """Kill what ended jobs have left.

        When a process dies its children become this one's. So each pass kills all that is left,
        and the next one finds what was forked meanwhile, until there is nothing left.
        """
        self._swept_at = now
        self._needs_sweep = False
        known = self._known_pids()
        while (left := self._find_leftovers(known)) is not None:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if proc.now() > now + _SWEEPING_S:
                self._needs_sweep = True  # continue at the next look
                return

    def _find_leftovers(self, known: set[int]) -> list[int] | None:
        """Children of this process that ended jobs have left; None when there are none."""
        children = proc.read_children(self._pid)
        if children is None:
            among = proc.read_table()
            children = {each.pid for each in among.values() if each.parent == self._pid}
        left, is_over = [], True
        for pid in children - known:
            process = proc.read_process(pid)
            if process is None or (process.is_zombie and _reap(pid)):
                # It may have forked before it ended, and its fork is not in this list.
                is_over = False
            elif self._is_leftover(process):
                left.append(pid)
                is_over = False
        return None if is_over else left

    def _is_alone(self) -> bool:
        """Whether there is surely nobody that it does not know; no look at all processes."""
        children = proc.read_children(self._pid)
        return children is not None and not children - self._known_pids()

    def _find_processes(self, child: Child, among: ProcTable) -> set[int]:
        """Its descendants, and those of them that became ours when their parents ended."""
        if child.sandbox is not None:
            return (
                child.sandbox.find_processes(child.pid, self._find_adopted(among), among)
                & among.keys()
            )
        adopted = [
            pid for pid in self._find_adopted(among) if self._find_owner(among[pid]) is child
        ]
        return proc.find_descendants([child.pid, *adopted], among) & among.keys()

    def _find_adopted(self, among: ProcTable) -> list[int]:
        known = self._known_pids()
        return [
            process.pid
            for process in proc.living(among)
            if process.parent == self._pid and process.pid not in known
        ]

    def _find_owner(self, process: proc.ProcEntry) -> Child | None:
        leader = self._by_pid.get(process.session)
        if leader is not None:
            return leader
        mark = proc.read_mark(process.pid)
        return next((child for child in self._by_run.values() if child.mark == mark), None)

    def _is_leftover(self, process: proc.ProcEntry) -> bool:
        if self._find_owner(process) is not None:
            return False
        if proc.read_mark(process.pid) is not None:
            return True
        # It hides whose it is. It may be of any job that started before it and still runs; it is
        # looked at again when that one has ended.
        started = [proc.ticks(child.started) for child in self._by_run.values()]
        return all(ticks > process.started for ticks in started)


def _reap(pid: int) -> bool:
    """False for a process whose first thread has ended and another one has not."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return True
