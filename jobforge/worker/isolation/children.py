"""The processes of a zygote's jobs: reap them, check their memory, kill them with descendants.

The zygote is a subreaper: when a child ends, the child's children become children of the zygote. So
all processes that jobs start are its descendants, and it finds what ended jobs have left there.
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

from jobforge.sdk.definition_settings import ProcessLimits
from jobforge.worker.clock import now
from jobforge.worker.isolation import proc
from jobforge.worker.isolation.frames import ExceededLimit
from jobforge.worker.isolation.memory_watch import MIN_INTERVAL_S, MemoryWatch
from jobforge.worker.isolation.proc import ProcTable

if TYPE_CHECKING:
    from jobforge.worker.isolation.sandbox import Sandbox, Sandboxes

# Minimum intervals between two sweeps for leftover processes of ended jobs, and between two memory
# checks. Both may read the whole process table.
_SWEEP_S = 0.25
_MEMORY_CHECK_INTERVAL_S = 0.1
# A sweep that takes longer is continued later, so that the worker's requests do not wait for it.
_SWEEPING_S = 0.1
# How long to wait for killed processes to end.
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
    memory_watch: MemoryWatch | None = None  # created late: most jobs end before the first check
    exceeded: ExceededLimit = ExceededLimit.NONE

    @property
    def due_at(self) -> float:
        """When the next memory check is due."""
        if self.sandbox is not None and self.sandbox.cgroup is not None:
            return math.inf  # the kernel enforces the cgroup's limits
        return (
            self.started + MIN_INTERVAL_S if self.memory_watch is None else self.memory_watch.due_at
        )


class ChildTable:
    """The running children of a zygote.

    After each fork, copy-on-write copies every page that this table writes to, so the code that
    runs for every job is kept short.
    """

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
        """Add a process that the zygote forked for itself, and that ends without being killed."""
        self._helpers.add(pid)

    def get(self, run: int) -> Child | None:
        return self._by_run.get(run)

    def reap(self) -> Iterator[tuple[Child, int, struct_rusage]]:
        """Reap ended children; yield each with its wait status and resource usage."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                self._needs_sweep = False  # without children there are no leftovers
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
        """Kill the job's process group, and schedule one sweep for all jobs that end until then."""
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
        """Return the children of this process that are not leftovers of jobs."""
        keepers = set() if self._sandboxes is None else self._sandboxes.keepers
        return {*self._by_pid, *self._helpers, *keepers}

    def next_check_s(self) -> float | None:
        """Return the seconds until the next check; None if none is due."""
        return None if self._next_check_at == math.inf else max(0.0, self._next_check_at - now())

    def run_checks(self) -> None:
        """Run the checks that are due: kill jobs over their limits and leftovers of ended jobs."""
        moment = now()
        if moment < self._next_check_at:
            return
        if moment >= self._watched_at + _MEMORY_CHECK_INTERVAL_S:
            self._check_memory(moment)
        if self._needs_sweep and moment >= self._swept_at + _SWEEP_S:
            self._sweep(moment)
        self._next_check_at = self._compute_next_check()

    def kill(self, child: Child) -> None:
        if self._sandboxes is not None and child.sandbox is not None:
            self._sandboxes.kill(child.sandbox)
            return
        proc.kill_all(lambda: self._find_processes(child, proc.read_table()) or {child.pid})
        proc.kill_group(child.pid)

    def kill_all(self) -> None:
        """Kill all descendants of this process and wait until they have ended."""
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
        due_at = self._swept_at + _SWEEP_S if self._needs_sweep else math.inf
        if self._by_run:
            first = min(child.due_at for child in self._by_run.values())
            due_at = min(due_at, max(first, self._watched_at + _MEMORY_CHECK_INTERVAL_S))
        return due_at

    def _check_memory(self, moment: float) -> None:
        due = [child for child in self._by_run.values() if child.due_at <= moment]
        if not due:
            return
        self._watched_at = moment
        table = proc.read_table()
        for child in due:
            if child.memory_watch is None:
                child.memory_watch = MemoryWatch(
                    child.limits.memory_bytes, self._pid, moment, child.sandbox
                )
            processes = self._find_processes(child, table)
            if child.memory_watch.is_over(processes, moment):
                child.exceeded = ExceededLimit.MEMORY
                self.kill(child)
            elif len(processes) > self._most_processes:
                child.exceeded = ExceededLimit.PROCESSES
                self.kill(child)

    def _sweep(self, moment: float) -> None:
        """Kill the leftover processes of ended jobs.

        When a process dies, its children become children of this process. So each pass kills all
        leftovers, and the next pass finds what they forked in the meantime, until none is left.
        """
        self._swept_at = moment
        self._needs_sweep = False
        known = self._known_pids()
        while (left := self._find_leftovers(known)) is not None:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if now() > moment + _SWEEPING_S:
                self._needs_sweep = True  # continue at the next check
                return

    def _find_leftovers(self, known: set[int]) -> list[int] | None:
        """Return children of this process that ended jobs have left; None if no pass is needed.

        The list may be empty while a child has just ended: it may have forked before.
        """
        children = proc.read_children(self._pid)
        if children is None:
            table = proc.read_table()
            children = {process.pid for process in table.values() if process.parent == self._pid}
        left, is_done = [], True
        for pid in children - known:
            process = proc.read_process(pid)
            if process is None or (process.is_zombie and _reap(pid)):
                # It may have forked before it ended; the new process is not in this list.
                is_done = False
            elif self._is_leftover(process):
                left.append(pid)
                is_done = False
        return None if is_done else left

    def _find_processes(self, child: Child, table: ProcTable) -> set[int]:
        """Return the job's processes: descendants of the child, and orphans that were adopted."""
        if child.sandbox is not None:
            return (
                child.sandbox.find_processes(child.pid, self._find_adopted(table), table)
                & table.keys()
            )
        adopted = [
            pid for pid in self._find_adopted(table) if self._find_owner(table[pid]) is child
        ]
        return proc.find_descendants([child.pid, *adopted], table) & table.keys()

    def _find_adopted(self, table: ProcTable) -> list[int]:
        known = self._known_pids()
        return [
            process.pid
            for process in proc.living(table)
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
        # The process has hidden its mark, so it may belong to any running job that started before
        # it. The sweep after the end of the last such job kills it.
        started = [proc.ticks(child.started) for child in self._by_run.values()]
        return all(ticks > process.started for ticks in started)


def _reap(pid: int) -> bool:
    """Reap a zombie; return False if only its main thread has ended."""
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    return True
