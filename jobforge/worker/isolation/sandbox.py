"""The confinement of one job's process: its user, its namespaces and its cgroup.

PID namespaces and cgroups are slow to create, so later jobs reuse those of an ended job once all
processes in them have ended. A job shares neither its user nor its mounts with a concurrent job.
"""

import os
import resource
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from jobforge.sdk.definition_settings import ProcessLimits
from jobforge.worker.isolation import proc
from jobforge.worker.isolation.cgroups import Cgroup, Cgroups
from jobforge.worker.isolation.job_users import JobUser, UserPool, read_uid
from jobforge.worker.isolation.levels import IsolationLevel
from jobforge.worker.isolation.namespaces import (
    Mounts,
    PidNamespace,
    PidNamespaces,
    drop_capabilities,
)
from jobforge.worker.isolation.remove_tree import remove_tree

Fork = Callable[[], int]

_CAP_SYS_PTRACE = 19

# Folders that every user can write to. A job has private ones only if it has private mounts.
_SHARED_FOLDERS = ("/dev/shm", "/tmp", "/var/tmp")  # noqa: S108 - cleaned after jobs


class _Slot(NamedTuple):
    """The reusable part of a sandbox."""

    namespace: PidNamespace
    cgroup: Cgroup | None


class Sandbox:
    """One job's confinement."""

    __slots__ = ("_memory_bytes", "_mounts", "_processes", "is_dead", "slot", "user")

    def __init__(
        self,
        user: JobUser | None,
        slot: _Slot | None,
        mounts: Mounts | None,
        memory_bytes: int,
        processes: int,
    ) -> None:
        self.user = user
        self.slot = slot
        self.is_dead = False
        self._mounts = mounts
        self._memory_bytes = memory_bytes
        self._processes = processes

    @property
    def key(self) -> int:
        """The key among the running jobs: the keeper's process ID, or the user ID."""
        if self.slot is not None:
            return self.slot.namespace.keeper
        return 0 if self.user is None else self.user.uid

    @property
    def uid(self) -> int | None:
        return None if self.user is None else self.user.uid

    @property
    def has_mounts(self) -> bool:
        return self._mounts is not None

    def run_with_access(self, measure: Callable[[], int]) -> int | None:
        """Run `measure` with the right to read the job's processes; return its result."""
        if self.user is None or can_trace():
            return measure()
        return self.user.call(os.fork, measure)

    @property
    def cgroup(self) -> Cgroup | None:
        return None if self.slot is None else self.slot.cgroup

    def enter(self, folder: str) -> None:
        """Confine this process, a new fork, permanently."""
        if self.cgroup is not None:
            self.cgroup.enter()
        if self.user is not None:
            uid = self.user.uid
            for owned in (folder, 1, 2):
                os.chown(owned, uid, uid)
        if self._mounts is not None:
            self._mounts.make_private(folder, self._memory_bytes)
        if self.user is None:
            drop_capabilities()
        else:
            # The kernel counts all processes of the user, so this limits all of the job's.
            resource.setrlimit(resource.RLIMIT_NPROC, (self._processes, self._processes))
            self.user.become()

    def find_processes(
        self, leader: int, orphans: Iterable[int], table: proc.ProcTable
    ) -> set[int]:
        """Return all processes of the job; `orphans` are processes whose parents have ended."""
        if self.slot is not None:
            keeper = self.slot.namespace.keeper
            return proc.find_descendants([leader, keeper], table) - {keeper}
        own = [pid for pid in orphans if read_uid(pid) == self.uid]
        return proc.find_descendants([leader, *own], table)


class Sandboxes:
    """Creates the sandboxes of one zygote's jobs, and cleans them up when the jobs have ended."""

    def __init__(
        self,
        level: IsolationLevel,
        fork: Fork,
        *,
        users: UserPool | None,
        processes: int,
        cgroups: Cgroups | None = None,
    ) -> None:
        self._fork = fork
        self._users = users
        self._processes = processes
        self._cgroups = cgroups
        self._namespaces = PidNamespaces() if level >= IsolationLevel.NAMESPACE else None
        self._mounts = Mounts() if level >= IsolationLevel.NAMESPACE else None
        self._pid = os.getpid()
        self._free: list[_Slot] = []
        self._busy: dict[int, Sandbox] = {}
        self._old_cgroups: list[Cgroup] = []
        self._mtimes = {path: _read_mtime(path) for path in _SHARED_FOLDERS}

    def set_fork(self, fork: Fork) -> None:
        """Use this fork function from now on."""
        self._fork = fork

    @property
    def fds(self) -> list[int]:
        """Descriptors that a job must not inherit."""
        own = [] if self._users is None else [self._users.lock_fd]
        if self._namespaces is None:
            return own
        busy = (each.slot for each in self._busy.values() if each.slot is not None)
        slots = [slot.namespace.fd for slot in (*busy, *self._free) if slot.namespace.fd >= 0]
        return [*own, self._namespaces.own_fd, *slots]

    @property
    def keepers(self) -> set[int]:
        if self._namespaces is None:
            return set()
        return {*self._busy, *(slot.namespace.keeper for slot in self._free)}

    def acquire(self, limits: ProcessLimits) -> Sandbox:
        """Return a sandbox. Raises OSError if no user ID, process or cgroup is available."""
        user = None if self._users is None else self._users.acquire()
        try:
            slot = self._take_slot(limits)
        except OSError:
            if self._users is not None and user is not None:
                self._users.release(user)
            raise
        sandbox = Sandbox(user, slot, self._mounts, limits.memory_bytes, self._processes)
        self._busy[sandbox.key] = sandbox
        return sandbox

    def fork(self, sandbox: Sandbox) -> int:
        if sandbox.slot is None or self._namespaces is None:
            return self._fork()
        return self._namespaces.fork_into(sandbox.slot.namespace, self._fork)

    def kill(self, sandbox: Sandbox) -> None:
        """Kill all processes of the job at once, so that none can escape by a fork."""
        if sandbox.slot is not None:
            if not sandbox.is_dead:
                sandbox.is_dead = True
                sandbox.slot.namespace.kill()
        elif sandbox.user is not None:
            sandbox.user.kill_all(self._fork)

    def release(self, sandbox: Sandbox, known: Iterable[int]) -> None:
        """Clean up after the end of the job's process: kill its leftovers and reuse its slot.

        `known` are the children of this process that are not leftovers of jobs.
        """
        del self._busy[sandbox.key]
        if sandbox.slot is None:
            self._clear_user(sandbox, known)
        else:
            self._clear_slot(sandbox, sandbox.slot)
        if self._users is not None and sandbox.user is not None:
            self._users.release(sandbox.user)
        if self._old_cgroups:
            self._old_cgroups = [each for each in self._old_cgroups if not each.remove()]

    def discard_keeper(self, pid: int) -> None:
        """Discard the namespace of a keeper that has ended; the kernel killed its processes."""
        sandbox = self._busy.get(pid)
        if sandbox is not None and sandbox.slot is not None:
            sandbox.is_dead = True
            sandbox.slot.namespace.close()
        lost = [slot for slot in self._free if slot.namespace.keeper == pid]
        for slot in lost:
            self._free.remove(slot)
            slot.namespace.close()
            if slot.cgroup is not None:
                self._old_cgroups.append(slot.cgroup)

    def kill_all(self) -> None:
        """Kill all processes of all jobs."""
        for sandbox in self._busy.values():
            self.kill(sandbox)
        for slot in self._free:
            slot.namespace.kill()

    def close(self) -> None:
        """Remove the cgroups and close all descriptors. All processes must have ended."""
        busy = [sandbox.slot for sandbox in self._busy.values() if sandbox.slot is not None]
        cgroups = [slot.cgroup for slot in (*self._free, *busy) if slot.cgroup is not None]
        for cgroup in (*self._old_cgroups, *cgroups):
            cgroup.remove()
        for fd in self.fds:
            os.close(fd)

    def _take_slot(self, limits: ProcessLimits) -> _Slot | None:
        if self._namespaces is None:
            return None
        slot = self._free.pop() if self._free else self._new_slot(self._namespaces)
        if slot.cgroup is not None:
            slot.cgroup.limit_memory(limits.memory_bytes)
        return slot

    def _new_slot(self, namespaces: PidNamespaces) -> _Slot:
        cgroup = None if self._cgroups is None else self._cgroups.create(self._processes)
        return _Slot(namespaces.create(self._fork), cgroup)

    def _clear_slot(self, sandbox: Sandbox, slot: _Slot) -> None:
        # The job's leftover processes have lost their parents, so they are the keeper's children.
        if not sandbox.is_dead and proc.read_children(slot.namespace.keeper) == set():
            self._free.append(slot)
            return
        if not sandbox.is_dead:
            slot.namespace.kill()
        if slot.cgroup is not None:
            self._old_cgroups.append(slot.cgroup)

    def _clear_user(self, sandbox: Sandbox, known: Iterable[int]) -> None:
        user = sandbox.user
        if user is None:
            return
        children = proc.read_children(self._pid)
        left = None if children is None else children.difference(known)
        if left is None or any(read_uid(pid) in {user.uid, None} for pid in left):
            user.kill_all(self._fork)
        changed = [path for path in _SHARED_FOLDERS if _read_mtime(path) != self._mtimes[path]]
        if not changed:
            return
        left_files = [path for folder in changed for path in _list_files(user.uid, folder)]
        if left_files:
            user.call(self._fork, lambda: _remove_all(left_files))
        self._mtimes |= {path: _read_mtime(path) for path in changed}


@cache
def can_trace() -> bool:
    """Whether this process may read the processes of other users (CAP_SYS_PTRACE)."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    effective = int(status.partition("CapEff:")[2].split()[0], 16)
    return bool(effective >> _CAP_SYS_PTRACE & 1)


def _read_mtime(folder: str) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - cheaper than a Path for every job
    except OSError:
        return 0


def _list_files(uid: int, folder: str) -> list[str]:
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                if entry.stat(follow_symlinks=False).st_uid == uid:
                    found.append(entry.path)
            except OSError:
                continue
    return found


def _remove_all(paths: Iterable[str]) -> int:
    for path in paths:
        if Path(path).is_dir() and not Path(path).is_symlink():
            remove_tree(path)
        else:
            Path(path).unlink(missing_ok=True)
    return 0
