"""Limits on client connections: their number in total and per address, and their timeouts.

Without limits, a client that opens connections and sends nothing would use up the process's file
descriptors and lock out other clients. One address gets at most half of all connections.
"""

import resource
from collections import Counter
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from jobforge.api.problems import problem_from_http_exception
from jobforge.config import Config

PEER = "jobforge.peer"  # scope key: peer address of the TCP connection
_RESERVED_FILES = 64  # file descriptors for everything but client and database connections


@dataclass(slots=True)
class ConnectionLimiter:
    """Counts the open connections of one server."""

    max_total: int
    max_per_address: int
    header_timeout_s: float
    body_timeout_s: float
    _open: int = 0
    _by_address: Counter[str] = field(default_factory=Counter)

    def open(self, address: str | None) -> bool:
        """Count a connection; return False if there are too many.

        `address` is None for a trusted proxy, which connects for all its clients: only the total
        limit applies to it.
        """
        if self._open >= self.max_total or not self.acquire(address):
            return False
        self._open += 1
        return True

    def close(self, address: str | None) -> None:
        self._open -= 1
        self.release(address)

    def acquire(self, address: str | None) -> bool:
        """Count an open connection or request of an address; return False if it has too many."""
        if address is None:
            return True
        if self._by_address[address] >= self.max_per_address:
            return False
        self._by_address[address] += 1
        return True

    def release(self, address: str | None) -> None:
        if address is None:
            return
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]


class ForwardedLimit:
    """Limits the open requests of each client behind a trusted proxy.

    The proxy's connections belong to many clients, so the server counts requests instead. uvicorn
    has already read X-Forwarded-For, and only from the proxies in FORWARDED_ALLOW_IPS.
    """

    def __init__(self, app: ASGIApp, connections: ConnectionLimiter) -> None:
        self._app = app
        self._connections = connections

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        address = _forwarded_address(scope)
        if not self._connections.acquire(address):
            await problem_from_http_exception(HTTPException(503), "")(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        finally:
            self._connections.release(address)


def limiter_from_config(config: Config) -> ConnectionLimiter:
    """Return the configured limiter, capped by this process's file descriptor limit."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    max_total = config.client_connections
    if files != resource.RLIM_INFINITY:
        max_total = min(max_total, max(1, files - config.server_connections - _RESERVED_FILES))
    return ConnectionLimiter(
        max_total=max_total,
        max_per_address=max(1, min(config.client_connections_per_address, max_total // 2)),
        header_timeout_s=config.header_timeout_s,
        body_timeout_s=config.body_timeout_s,
    )


def _forwarded_address(scope: Scope) -> str | None:
    if scope["type"] != "http" or scope.get("client") in {None, scope.get(PEER)}:
        return None
    return str(scope["client"][0])
