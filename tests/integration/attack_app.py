"""Jobs that attack other jobs and their own limits. Each returns, or shows, how far it got."""

import ctypes
import os
import re
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

from jobforge import Context, JobForge

jf = JobForge()

MIB = 1024**2
MEMORY = 64 * MIB
MOST_PROCESSES = 48
# How long an attack lasts if nothing stops it. The zygote checks at least once a second.
_PATIENCE_S = 15
_PIDFD_OPEN, _PIDFD_GETFD = 434, 438

_libc = ctypes.CDLL(None, use_errno=True)


@jf.job
def hold(ctx: Context, token: str, listener: str) -> str:
    """Be the victim: keep a secret in memory and in a file until the listener releases this job."""
    Path("secret.txt").write_text(token, encoding="ascii")
    connection = _connect(listener)
    ctx.progress(1, 2, "holds")
    connection.recv(1)
    return token[::-1]


@jf.job
def read_memory(token: str) -> list[int]:
    """Return the processes whose memory contains the token, which is passed reversed."""
    wanted = token[::-1].encode()
    return [pid for pid in _others() if _has(pid, wanted)]


@jf.job
def take_sockets() -> list[str]:
    """Return descriptors taken from other processes."""
    taken = []
    for pid in _others():
        pidfd = _libc.syscall(_PIDFD_OPEN, pid, 0)
        if pidfd < 0:
            continue
        for fd in range(3, 16):
            mine = _libc.syscall(_PIDFD_GETFD, pidfd, fd, 0)
            if mine >= 0:
                taken.append(f"{fd} of {pid}")
                os.close(mine)
        os.close(pidfd)
    return taken


@jf.job
def read_files(token: str) -> list[str]:
    """Return files outside the job's folder that contain the token, which is passed reversed."""
    wanted = token[::-1].encode()
    found = []
    for folder, _, names in os.walk(Path.cwd().parent):
        for name in names:
            with suppress(OSError):
                if wanted in Path(folder, name).read_bytes():
                    found.append(name)
    return found


@jf.job
def signal_others(pids: list[int]) -> list[int]:
    """Return those of the processes that this job may signal."""
    reached = []
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, 0)
            reached.append(pid)
    return reached


@jf.job
def see_others(pids: list[int]) -> list[int]:
    """Return those of the processes whose command line this job can read."""
    return [pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists()]


@jf.job
def leave_chain(listener: str) -> None:
    """Leave a process that forks and exits, as each of its forks does."""
    connection = _connect(listener)
    ready, begun = os.pipe()
    if os.fork():
        os.read(ready, 1)
        return
    os.setsid()  # earlier, it would be killed with the job's group
    _forget_environment()
    connection.send(b".")
    os.write(begun, b".")  # then the job may end, and this process be killed
    while os.fork() == 0:
        os.setsid()
        with suppress(BlockingIOError):
            if connection.recv(1, socket.MSG_DONTWAIT):
                connection.send(b"!")
    os._exit(0)


@jf.job
def leave_daemon(listener: str) -> None:
    """Leave a process in a separate session that hides its origin."""
    connection = _connect(listener)
    ready, begun = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _forget_environment()
            connection.send(b".")
            os.write(begun, b".")
            while connection.recv(1):
                connection.send(b"!")
        os._exit(0)
    os.wait()
    os.read(ready, 1)


@jf.job
def leave_daemon_and_wait(listener: str) -> None:
    leave_daemon(listener)
    signal.pause()


@jf.job(memory=MEMORY)
def fill_memfd() -> str:
    """Use three times the memory limit in an unmapped memfd."""
    fd = os.memfd_create("hoard")
    _fill(fd)
    time.sleep(_PATIENCE_S)
    return "done"


@jf.job(memory=MEMORY)
def fill_shared_memory(name: str) -> str:
    """Use three times the memory limit in files of /dev/shm; one at a time is open."""
    for number in range(3 * MEMORY // MIB):
        Path(f"/dev/shm/{name}.{number}").write_bytes(bytes(MIB))
    time.sleep(_PATIENCE_S)
    return "done"


@jf.job(memory=MEMORY)
def fill_forks() -> str:
    """Use three times the memory limit in three forks, each below the limit."""
    forks = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            _kept = os.urandom(MEMORY - 16 * MIB)
            time.sleep(_PATIENCE_S)
            os._exit(0)
        forks.append(pid)
    statuses = [os.waitpid(pid, 0)[1] for pid in forks]
    return "killed" if any(statuses) else "done"


@jf.job
def fork_often() -> str:
    for _ in range(4 * MOST_PROCESSES):
        if os.fork() == 0:
            signal.pause()
    time.sleep(_PATIENCE_S)
    return "done"


@jf.job
def leave_file(name: str) -> None:
    Path(f"/dev/shm/{name}").write_text("left", encoding="ascii")


@jf.job
def leave_segment(key: int) -> None:
    """Leave shared memory of System V."""
    if _libc.shmget(key, 4096, 0o1600) < 0:
        raise OSError(ctypes.get_errno(), "shmget")


def _connect(listener: str) -> socket.socket:
    """Connect to an abstract socket, which the job can reach whatever its mounts are."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"\0{listener}")
    return connection


def _others() -> list[int]:
    pids = (int(name.name) for name in Path("/proc").iterdir() if name.name.isdecimal())
    return [pid for pid in pids if pid != os.getpid()]


def _has(pid: int, wanted: bytes) -> bool:
    """Return whether the process's heap contains the bytes."""
    with suppress(OSError, ValueError, OverflowError):
        areas = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            for area in areas:
                match = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw.p \S+ 00:00 ", area)
                if match is None:
                    continue
                start, end = int(match[1], 16), int(match[2], 16)
                with suppress(OSError):
                    memory.seek(start)
                    if wanted in memory.read(min(end - start, 64 * MIB)):
                        return True
    return False


def _forget_environment() -> None:
    """Overwrite what /proc/<pid>/environ shows."""
    words = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    start, end = int(words[47]), int(words[48])
    ctypes.memset(start, 0, end - start)


def _fill(fd: int) -> None:
    piece = bytes(MIB)
    for _ in range(3 * MEMORY // MIB):
        os.write(fd, piece)


if __name__ == "__main__":
    sys.exit("this is an app")
