"""Connects only to checked addresses: resolves a name once and connects to one of the results.

A second lookup could return another address (DNS rebinding). A name with one forbidden address is
refused even if its other addresses are allowed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

import httpcore2
from httpcore2 import SOCKET_OPTION, AnyIOBackend, AsyncNetworkBackend, AsyncNetworkStream

from jobforge.connectors.egress.addresses import IpAddress, parse_address
from jobforge.connectors.egress.dns_thread_pool import resolve
from jobforge.connectors.egress.policy import Policy
from jobforge.errors import AddressNotAllowed, DeadlineExceeded, Unreachable
from jobforge.observability import logs

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

_MOST_ADDRESSES = 4  # attempts per name


class GuardedBackend(AsyncNetworkBackend):
    """The network backend that httpcore2 connects through."""

    def __init__(
        self,
        policy: Policy,
        *,
        resolve: Resolve = resolve,
        network: AsyncNetworkBackend | None = None,
    ) -> None:
        self._policy = policy
        self._resolve = resolve
        self._network = network or AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's signature
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._resolve_allowed(host, port)
                return await self._connect_first(addresses, port, local_address, socket_options)
        except TimeoutError:
            raise DeadlineExceeded(f"Connecting to {host} took longer than {timeout:g} s") from None

    async def _resolve_allowed(self, host: str, port: int) -> list[IpAddress]:
        literal = parse_address(host)
        texts = [host] if literal is not None else await self._lookup(host, port)
        addresses = []
        for text in texts:
            address = parse_address(text)
            if address is None or not self._policy.allows(address, port):
                _log_blocked(host, port, text)
                raise AddressNotAllowed
            addresses.append(address)
        return addresses

    async def _lookup(self, host: str, port: int) -> Sequence[str]:
        try:
            found = await self._resolve(host, port)
        except (OSError, UnicodeError):
            raise Unreachable(f"{host} has no IP address") from None
        if not found:
            raise Unreachable(f"{host} has no IP address")
        return list(dict.fromkeys(found))

    async def _connect_first(
        self,
        addresses: list[IpAddress],
        port: int,
        local_address: str | None,
        socket_options: Iterable[SOCKET_OPTION] | None,
    ) -> AsyncNetworkStream:
        for address in addresses[:_MOST_ADDRESSES]:
            try:
                stream = await self._network.connect_tcp(
                    str(address),
                    port,
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
            return await self._verify_peer(stream, address)
        raise Unreachable("The connection failed")

    async def _verify_peer(
        self, stream: AsyncNetworkStream, address: IpAddress
    ) -> AsyncNetworkStream:
        """Check the peer's address: something in between may have redirected the connection."""
        peer = stream.get_extra_info("server_addr")
        if peer is None or parse_address(str(peer[0])) != address:
            await stream.aclose()
            raise AddressNotAllowed
        return stream


def _log_blocked(host: str, port: int, address: str) -> None:
    """Log for operators; the tenant must not learn which address a name resolves to."""
    logs.emit("egress.blocked", level="warning", host=host, port=port, address=address)


class ProxyBackend(AsyncNetworkBackend):
    """Connects only to the operator's proxy, which decides which hosts it reaches."""

    def __init__(
        self, host: str, port: int | None, network: AsyncNetworkBackend | None = None
    ) -> None:
        self._proxy = host, port
        self._network = network or AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore2's signature
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> AsyncNetworkStream:
        if (host, port) != self._proxy:
            raise AddressNotAllowed
        return await self._network.connect_tcp(host, port, timeout, local_address, socket_options)
