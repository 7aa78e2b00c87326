"""A separate user ID for each running job, from the setting `job_user_range`.

Workers on one host can share the range: each worker takes blocks of it and locks them in one file.
"""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterator
from errno import EAGAIN

from jobforge.worker.isolation import proc

_BLOCK = 256
_UNCHANGED = 2**32 - 1  # in system calls, this user ID means "do not change"
_LOCK_NAME = "jobforge-users.lock"


class UserPool:
    """User IDs that are free, the least recently used first."""

    def __init__(self, first: int, last: int) -> None:
        if not 0 < first < last < _UNCHANGED:
            raise ValueError(f"{first}-{last} is not a valid range of user IDs")
        self._blocks = deque(range(first, last + 1, _BLOCK))
        self._range = range(first, last + 1)
        self._held: set[int] = set()  # first user IDs of the blocks that this worker has locked
        self._free: deque[int] = deque()
        self._helper_uid = 0
        self._lock = _open_lock()

    @property
    def lock_fd(self) -> int:
        return self._lock

    def acquire(self) -> "JobUser":
        while not self._free and self._blocks:
            self._add_block(self._blocks.popleft())
        if not self._free:
            raise OSError(EAGAIN, "All user IDs of job_user_range are in use")
        uid = self._free.popleft()
        return JobUser(uid, self._helper_uid)

    def release(self, user: "JobUser") -> None:
        self._free.append(user.uid)

    def _add_block(self, first: int) -> None:
        if not self._lock_block(first):
            return  # another worker has the block
        # The first user ID of a block runs no jobs: it is the helper of JobUser.call.
        self._helper_uid = first
        self._kill_leftovers(first)
        self._held.add(first)
        self._free.extend(self._block(first)[1:])

    def _kill_leftovers(self, own: int) -> None:
        """Kill processes that a killed zygote left behind; its locks were released by its end.

        They may be in a block that no worker takes again, so this looks at all blocks that no
        other worker holds, not only at `own`, the block that has just been locked.
        """
        by_block: dict[int, list[int]] = {}
        for uid in {read_uid(pid) for pid in proc.read_table()}:
            if uid is None or uid not in self._range:
                continue
            first = self._range.start + (uid - self._range.start) // _BLOCK * _BLOCK
            by_block.setdefault(first, []).append(uid)
        for first, uids in by_block.items():
            if first in self._held or (first != own and not self._lock_block(first)):
                continue
            for uid in uids:
                JobUser(uid, first).kill_all(os.fork)
            if first != own:
                self._lockf(os.F_ULOCK, first)

    def _lock_block(self, first: int) -> bool:
        try:
            self._lockf(os.F_TLOCK, first)
        except OSError:
            return False
        return True

    def _lockf(self, command: int, first: int) -> None:
        """Lock or unlock a block by a POSIX lock, which forks do not inherit."""
        os.lseek(self._lock, first, os.SEEK_SET)
        os.lockf(self._lock, command, len(self._block(first)))

    def _block(self, first: int) -> range:
        return range(first, min(first + _BLOCK, self._range.stop))


class JobUser:
    """One job's user and group ID."""

    __slots__ = ("_helper_uid", "uid")

    def __init__(self, uid: int, helper_uid: int) -> None:
        self.uid = uid
        self._helper_uid = helper_uid

    def become(self) -> None:
        """Change this process to the user, permanently, which also drops all capabilities."""
        uid = self.uid
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        if os.getresuid() != (uid, uid, uid):
            raise PermissionError(f"The user ID could not be changed to {uid}")

    def call(self, fork: Callable[[], int], function: Callable[[], int]) -> int | None:
        """Run `function` in a fork with the user's rights; return its result, None if it failed.

        The fork's real and saved IDs are not the user's, so the user's processes cannot signal or
        trace the fork.
        """
        reader, writer = os.pipe()
        pid = fork()
        if pid == 0:
            try:
                os.setgroups([])
                os.setresgid(self._helper_uid, self.uid, self._helper_uid)
                os.setresuid(self._helper_uid, self.uid, self._helper_uid)
                if os.getresuid() == (self._helper_uid, self.uid, self._helper_uid):
                    os.write(writer, b"%d" % function())
            finally:
                os._exit(0)
        os.close(writer)
        with open(reader, "rb") as file:  # noqa: PTH123 - opens a descriptor
            output = file.read()
        os.waitpid(pid, 0)
        return int(output) if output else None

    def kill_all(self, fork: Callable[[], int]) -> None:
        """Kill all processes of the user at once, so that none can escape by a fork."""
        self.call(fork, _kill_all)


def _kill_all() -> int:
    # The kernel signals all processes of this user in one step.
    try:
        os.kill(-1, signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return 1


def read_uid(pid: int) -> int | None:
    """Return the real user ID of a process; None if the process has ended."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:  # noqa: PTH123 - faster than Path, called many times a second
            for line in status:
                if line.startswith(b"Uid:"):
                    return int(line.split()[1])
    except OSError:
        pass
    return None


def _open_lock() -> int:
    for folder in _lock_folders():
        path = f"{folder}/{_LOCK_NAME}"
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            continue
        if os.fstat(fd).st_uid == os.geteuid():
            return fd
        os.close(fd)
    folders = " or ".join(_lock_folders())
    raise PermissionError(f"No {_LOCK_NAME} owned by the worker in {folders}")


def _lock_folders() -> Iterator[str]:
    yield "/run"
    import tempfile  # noqa: PLC0415 - kept out of zygotes (docs/decisions/0020)

    yield tempfile.gettempdir()
