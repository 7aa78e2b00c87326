"""Linux namespaces: the system calls, reusable PID namespaces, and private mounts."""

import ctypes
import os
import signal
import struct
from collections.abc import Callable
from pathlib import Path

from jobforge.process.hardening import forbid_inspection
from jobforge.worker.isolation import limits

NEWNS, NEWIPC, NEWUSER, NEWPID = 0x0002_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000

_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_CAPABILITY_VERSION_3 = 0x2008_0522

_libc = ctypes.PyDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    _check("unshare", _libc.unshare(flags))


def set_namespace(fd: int, kind: int) -> None:
    _check("setns", _libc.setns(fd, kind))


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    texts = (source.encode(), target.encode(), kind.encode() or None)
    done = _libc.mount(*texts, ctypes.c_ulong(flags), options.encode() or None)
    _check(f"mounting {target}", done)


def enter_user_namespace() -> None:
    """Continue in a fork that can create other namespaces; this process must have one thread.

    The fork keeps the user ID and has no rights outside its user namespace. It is in a new PID
    namespace too, because setns can only return to a PID namespace that belongs to the process's
    user namespace. The original process waits for the fork and exits with its exit code.
    """
    uid, gid = os.geteuid(), os.getegid()
    limits.unhide()  # required to write to this process's own files in /proc
    try:
        unshare(NEWUSER | NEWPID | NEWNS)
        limits.unhide()
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1", encoding="ascii")
    finally:
        forbid_inspection()
    pid = os.fork()
    if pid:
        limits.die_with_parent(signal.SIGKILL)
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
    limits.die_with_parent(signal.SIGUSR2)
    mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
    mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def drop_capabilities() -> None:
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _check("capset", _libc.capset(header, bytes(24)))


class PidNamespaces:
    """Creates PID namespaces and forks into them."""

    def __init__(self) -> None:
        self._own = os.open("/proc/self/ns/pid", os.O_RDONLY)

    @property
    def own_fd(self) -> int:
        return self._own

    def create(self, fork: Callable[[], int]) -> "PidNamespace":
        unshare(NEWPID)
        try:
            pid = fork()
        except OSError:
            set_namespace(self._own, NEWPID)
            raise
        if pid == 0:
            _run_keeper()
        fd = os.open("/proc/self/ns/pid_for_children", os.O_RDONLY)
        set_namespace(self._own, NEWPID)
        return PidNamespace(pid, fd)

    def fork_into(self, namespace: "PidNamespace", fork: Callable[[], int]) -> int:
        set_namespace(namespace.fd, NEWPID)
        try:
            pid = fork()
        except OSError:
            set_namespace(self._own, NEWPID)
            raise
        if pid:
            set_namespace(self._own, NEWPID)
        return pid


class PidNamespace:
    """A PID namespace, kept alive by its first process, the keeper.

    The keeper only waits for signals. The kernel makes it the parent of processes whose parent
    ends. When the keeper ends, the kernel kills all processes of the namespace at once.
    """

    __slots__ = ("fd", "keeper")

    def __init__(self, keeper: int, fd: int) -> None:
        self.keeper = keeper
        self.fd = fd

    def kill(self) -> None:
        """Kill all processes of the namespace, which cannot be used again."""
        self.close()
        os.kill(self.keeper, signal.SIGKILL)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


def _run_keeper() -> None:
    try:
        limits.die_with_parent(signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGUSR2):
            signal.signal(number, signal.SIG_IGN)  # the kernel reaps the children
        os.closerange(0, 1024)
        while True:
            signal.pause()
    finally:
        os._exit(0)


class Mounts:
    """Mounts private /tmp, /var/tmp and /dev/shm folders for a job, all on one tmpfs."""

    _SHARED_MEMORY = "/dev/shm"  # noqa: S108 - each job gets a private one

    def __init__(self) -> None:
        named = ("/tmp", "/var/tmp", *map(os.environ.get, ("TMPDIR", "TEMP", "TMP")))  # noqa: S108 - each job gets private ones
        self._temporary = sorted(
            {str(Path(each).resolve()) for each in named if each and Path(each).is_dir()}
        )

    def make_private(self, folder: str, size_bytes: int) -> None:
        """Give this process a private /proc, /dev/shm and /tmp; `folder` stays accessible."""
        shared = self._SHARED_MEMORY
        unshare(NEWNS | NEWIPC)
        kept = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        mount("none", "/", flags=_MS_REC | _MS_PRIVATE)
        options = f"size={size_bytes},mode=0755"
        mount("tmpfs", shared, "tmpfs", _MS_NOSUID | _MS_NODEV, options)
        for number, path in enumerate([*self._temporary, shared]):
            source = f"{shared}/{number}"
            Path(source).mkdir()
            Path(source).chmod(0o1777)
            mount(source, path, flags=_MS_BIND)
        before = os.umask(0o022)
        Path(folder).mkdir(parents=True, exist_ok=True)
        os.umask(before)
        mount(f"/proc/self/fd/{kept}", folder, flags=_MS_BIND)
        os.close(kept)
        mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
        os.chdir(folder)


def _check(what: str, result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
