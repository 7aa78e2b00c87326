"""What the operator allows and forbids in addition to the public Internet."""

import contextlib
import fcntl
import socket
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_network
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from jobforge.config import Config
from jobforge.connectors.egress.addresses import (
    IpAddress,
    IpNetwork,
    is_public,
    parse_address,
    unwrap_ipv4,
)
from jobforge.errors import ConfigError

_PORTS = (443, 80)
_SIOCGIFADDR = 0x8915  # Linux only; other systems reject it


@dataclass(frozen=True, slots=True)
class AllowEntry:
    """An entry of egress_allow: `10.1.2.3:8443`, `10.0.0.0/8`, `[fd00::1]:443` or `*:8443`."""

    network: IpNetwork | None  # None: every public address
    port: int | None  # None: ports 443 and 80

    def has_port(self, port: int) -> bool:
        return port in _PORTS if self.port is None else port == self.port

    def admits(self, address: IpAddress, port: int) -> bool:
        if not self.has_port(port):
            return False
        return is_public(address) if self.network is None else address in self.network


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules for egress; `forbidden` has the addresses of this machine and of its database."""

    allowed: tuple[AllowEntry, ...] = ()
    forbidden: frozenset[IpAddress] = frozenset()
    allow_http: bool = False
    proxy: str | None = None

    def allows_port(self, port: int) -> bool:
        return port in _PORTS or any(entry.has_port(port) for entry in self.allowed)

    def allows(self, address: IpAddress, port: int) -> bool:
        if any(entry.admits(address, port) for entry in self.allowed if entry.network is not None):
            return True
        if address in self.forbidden or unwrap_ipv4(address) in self.forbidden:
            return False
        if any(entry.admits(address, port) for entry in self.allowed):
            return True
        return port in _PORTS and is_public(address)


def policy_from_config(config: Config) -> Policy:
    """Return the configured policy; resolves the database's hosts."""
    return Policy(
        allowed=tuple(map(parse_allow_entry, config.egress_allow)),
        forbidden=frozenset((*own_addresses(), *_databases(config))),
        allow_http=config.egress_http,
        proxy=config.egress_proxy,
    )


def parse_allow_entry(entry: str) -> AllowEntry:
    """Parse an entry of egress_allow. Raises ConfigError for an invalid entry."""
    host, port = _split(entry)
    if host == "*" and port is not None:
        return AllowEntry(None, port)
    try:
        return AllowEntry(ip_network(host), port)
    except ValueError:
        raise ConfigError(
            f"egress_allow: {entry!r} is not an address, network or *:port",
            field="egress_allow",
            hint="Use entries such as 10.1.2.3:8443, 10.0.0.0/8, [fd00::1]:443, *:8443",
        ) from None


def own_addresses() -> set[IpAddress]:
    """Return the addresses of this machine that can be found without a DNS lookup."""
    found: set[str] = set()
    for family, remote in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        # Connecting a datagram socket sends nothing, but assigns its local address.
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((remote, 9))
            found.add(sock.getsockname()[0])
    return _addresses(found) | _of_interfaces()


def _of_interfaces() -> set[IpAddress]:
    """Return the addresses of all network interfaces, on Linux."""
    found: set[IpAddress] = set()
    with contextlib.suppress(OSError):
        for line in Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines():
            found.add(IPv6Address(bytes.fromhex(line.split()[0])))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            with contextlib.suppress(OSError):
                result = fcntl.ioctl(sock, _SIOCGIFADDR, struct.pack("256s", name.encode()))
                found.add(IPv4Address(result[20:24]))
    return found


def _databases(config: Config) -> set[IpAddress]:
    found: set[str] = set()
    for url in filter(None, (config.database_url, config.listen_url)):
        names = conninfo_to_dict(url)
        for host in str(names.get("hostaddr") or names.get("host") or "").split(","):
            if host and not host.startswith(("/", "@")):
                found.update(str(info[4][0]) for info in _lookup(host))
    return _addresses(found)


def _addresses(texts: set[str]) -> set[IpAddress]:
    parsed = (parse_address(str(text).partition("%")[0]) for text in texts)
    return {address for address in parsed if address is not None}


def _lookup(host: str) -> list[tuple[object, object, object, object, tuple[str, int]]]:
    try:
        return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)  # type: ignore[return-value]  # addresses of IP families
    except OSError:
        return []


def _split(entry: str) -> tuple[str, int | None]:
    if entry.startswith("["):
        host, bracket, rest = entry[1:].partition("]")
        return host if bracket else entry, _port(entry, rest.removeprefix(":")) if rest else None
    if entry.count(":") > 1:
        return entry, None
    host, _, port = entry.partition(":")
    return host, _port(entry, port) if port else None


def _port(entry: str, text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65_535:
        raise ConfigError(f"egress_allow: {entry!r} has an invalid port", field="egress_allow")
    return int(text)
