"""DNS lookups in threads, with a limited number of threads per tenant.

The system's lookup cannot be interrupted and may take minutes. So a request stops waiting for it
after a few seconds, but its thread counts against the tenant's share until it returns: names whose
servers do not respond delay only their own tenant's lookups.
"""

import asyncio
import socket
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from uuid import UUID

from jobforge.errors import DeadlineExceeded
from jobforge.types.current_job import CURRENT_JOB

_THREADS = 32
_SHARE = 4
_TIMEOUT_S = 5.0

LookUp = Callable[[str, int], Sequence[str]]
LookupOwner = UUID | None


def look_up(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a name from the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(info[4][0]) for info in found]


class Resolver:
    """Resolves names; `share` is the number of threads that one tenant's lookups may occupy."""

    def __init__(
        self,
        look_up: LookUp = look_up,
        *,
        threads: int = _THREADS,
        share: int = _SHARE,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._look_up = look_up
        self._share = share
        self._timeout_s = timeout_s
        self._threads = ThreadPoolExecutor(threads, "jobforge-resolve")
        self._lock = Lock()
        self._running: Counter[LookupOwner] = Counter()
        self._waiting: defaultdict[LookupOwner, deque[_Lookup]] = defaultdict(deque)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses. Raises DeadlineExceeded, and OSError like getaddrinfo."""
        job = CURRENT_JOB.get()
        tenant_id = None if job is None else job.tenant_id
        found: Future[Sequence[str]] = Future()
        with self._lock:
            self._waiting[tenant_id].append((host, port, found))
            self._start(tenant_id)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await asyncio.wrap_future(found)
        except TimeoutError:
            message = f"Resolving {host} took longer than {self._timeout_s:g} s"
            raise DeadlineExceeded(message) from None

    def _start(self, tenant_id: LookupOwner) -> None:
        """Start as many of the tenant's lookups as its share allows. Call with the lock held."""
        waiting = self._waiting[tenant_id]
        while waiting and self._running[tenant_id] < self._share:
            host, port, found = waiting.popleft()
            if found.set_running_or_notify_cancel():
                self._running[tenant_id] += 1
                self._threads.submit(self._run, tenant_id, host, port, found)
        if not waiting:
            del self._waiting[tenant_id]

    def _run(
        self, tenant_id: LookupOwner, host: str, port: int, found: "Future[Sequence[str]]"
    ) -> None:
        try:
            found.set_result(self._look_up(host, port))
        except BaseException as error:  # noqa: BLE001 - the future raises it in the waiting task
            found.set_exception(error)
        finally:
            with self._lock:
                self._running[tenant_id] -= 1
                if not self._running[tenant_id]:
                    del self._running[tenant_id]
                self._start(tenant_id)


_Lookup = tuple[str, int, "Future[Sequence[str]]"]

resolve = Resolver().resolve
