"""Cgroups for jobs: memory and process limits that apply to all of a job's processes together.

Uses cgroup v2 in a folder that is delegated to the worker, or v1 if its folders are writable.
"""

import os
from contextlib import suppress
from pathlib import Path

_NEEDED = ("memory", "pids")
_PREFIX = "jobforge-"


class Cgroup:
    """One job's cgroup, by its folders: one folder in v2, one per controller in v1."""

    __slots__ = ("_folders", "_is_v2", "_limit", "_oom_kills")

    def __init__(self, folders: dict[str, str], *, is_v2: bool) -> None:
        self._folders = folders
        self._is_v2 = is_v2
        self._limit = 0
        self._oom_kills = 0

    def limit_processes(self, count: int) -> None:
        _write(f"{self._folders['pids']}/pids.max", str(count))

    def enable_group_kill(self) -> None:
        """Make the kernel kill all processes of the cgroup when it is out of memory (v2 only).

        In v1 the kernel kills one process.
        """
        if self._is_v2:
            _write(f"{self._folders['memory']}/memory.oom.group", "1")

    def limit_memory(self, limit_bytes: int) -> None:
        if limit_bytes != self._limit:
            name = "memory.max" if self._is_v2 else "memory.limit_in_bytes"
            _write(f"{self._folders['memory']}/{name}", str(limit_bytes))
            self._limit = limit_bytes

    def enter(self) -> None:
        """Move this process into the cgroup."""
        for folder in set(self._folders.values()):
            _write(f"{folder}/cgroup.procs", "0")

    def ran_out_of_memory(self) -> bool:
        """Whether the OOM killer has killed a process of the cgroup since the last call."""
        name = "memory.events" if self._is_v2 else "memory.oom_control"
        kills = self._oom_kills
        with suppress(OSError):
            for line in _read(f"{self._folders['memory']}/{name}").splitlines():
                key, _, count = line.partition(" ")
                if key == "oom_kill":
                    kills = int(count)
        was_killed, self._oom_kills = kills > self._oom_kills, kills
        return was_killed

    def remove(self) -> bool:
        """Remove the cgroup; return False if processes are still in it."""
        for folder in set(self._folders.values()):
            try:
                os.rmdir(folder)  # noqa: PTH106 - cheaper than a Path for every job
            except FileNotFoundError:
                continue
            except OSError:
                return False
        return True


class Cgroups:
    """Creates cgroups below, or next to, the cgroup of this process."""

    def __init__(self, parents: dict[str, str], *, is_v2: bool) -> None:
        self.parents = parents
        self._is_v2 = is_v2
        self._count = 0
        # The random part: zygotes in separate PID namespaces have the same process ID.
        self._prefix = f"{_PREFIX}{os.getpid()}-{os.urandom(4).hex()}"

    def remove_stale(self) -> None:
        """Remove the cgroups that killed zygotes have left, unless processes are still in them."""
        if os.getpid() == 1:
            return  # in a PID namespace this process cannot see which zygotes still run
        for parent in set(self.parents.values()):
            for folder in Path(parent).glob(f"{_PREFIX}*"):
                pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
                if pid != "1" and not Path("/proc", pid).exists():
                    with suppress(OSError):
                        folder.rmdir()

    def create(self, processes: int) -> Cgroup:
        self._count += 1
        name = f"{self._prefix}-{self._count}"
        folders = {each: f"{parent}/{name}" for each, parent in self.parents.items()}
        for folder in set(folders.values()):
            os.mkdir(folder)  # noqa: PTH102 - cheaper than a Path for every job
        cgroup = Cgroup(folders, is_v2=self._is_v2)
        cgroup.limit_processes(processes)
        cgroup.enable_group_kill()
        return cgroup


def find_cgroups(own: str | None = None, mounts: str | None = None) -> Cgroups:
    """Return the Cgroups of this process. Raises OSError with what the host lacks.

    `own` and `mounts` replace the contents of /proc/self/cgroup and /proc/self/mountinfo.
    """
    paths = _parse_cgroup_file(_read("/proc/self/cgroup") if own is None else own)
    mount_points = _parse_mountinfo(_read("/proc/self/mountinfo") if mounts is None else mounts)
    unified = _find_v2(paths, mount_points)
    if unified is not None:
        return Cgroups(dict.fromkeys(_NEEDED, unified), is_v2=True)
    parents = {}
    for controller in _NEEDED:
        mount = mount_points.get(controller)
        if mount is None or controller not in paths:
            raise OSError(f"no writable cgroup has the controller {controller}")
        folder = _resolve_folder(mount, paths[controller])
        if not os.access(folder, os.W_OK):
            raise OSError(f"{folder} is not writable")
        parents[controller] = folder
    return Cgroups(parents, is_v2=False)


def _find_v2(paths: dict[str, str], mount_points: dict[str, tuple[str, str]]) -> str | None:
    if "" not in paths or "" not in mount_points:
        return None
    own = Path(_resolve_folder(mount_points[""], paths[""]))
    # In v2, a cgroup whose children have controllers must not contain processes itself, so jobs'
    # cgroups are next to the worker's cgroup, if possible.
    for folder in (own.parent, own):
        with suppress(OSError):
            enabled = (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
            if set(_NEEDED) <= set(enabled) and os.access(folder, os.W_OK):
                return str(folder)
    return None


def _parse_cgroup_file(text: str) -> dict[str, str]:
    """Return the cgroup path of this process by controller; the key of v2 is empty."""
    found = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path
    return found


def _parse_mountinfo(text: str) -> dict[str, tuple[str, str]]:
    """Return the mounted root path and the mount point by controller; the key of v2 is empty."""
    found = {}
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        root, point = before.split()[3:5]
        kind, _, options = after.split(" ", 2)
        if kind == "cgroup2":
            found[""] = (root, point)
        elif kind == "cgroup":
            for option in options.replace(" ", ",").split(","):
                found[option] = (root, point)
    return found


def _resolve_folder(mount: tuple[str, str], path: str) -> str:
    root, point = mount
    inside = path.removeprefix(root) if root != "/" else path
    return f"{point}/{inside.strip('/')}".rstrip("/")


def _read(path: str) -> str:
    return Path(path).read_text(encoding="utf-8")


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
