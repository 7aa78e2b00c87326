"""Parses a URL into one spelling that every component reads alike, or refuses it.

Does no DNS lookup: this module also validates URLs when they are saved.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv6Address
from urllib.parse import quote, urlsplit

import idna

from jobforge.connectors.egress.addresses import IpAddress, parse_address
from jobforge.connectors.egress.policy import Policy
from jobforge.errors import AddressNotAllowed, Invalid

MAX_URL_LENGTH = 2048

_BRACKETS = re.compile(r"\[[0-9A-Fa-f:.]+\](:[0-9]*)?")
_LABEL = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?")
# A last label that browsers read as an IPv4 number, in any base and number of parts.
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_NOT_PUBLIC = ("localhost", "local", "internal", "intranet", "lan", "home", "corp", "arpa")
_PORTS = {"https": 443, "http": 80}
_SAFE = "/?:@!$&'()*+,;=-._~%"


@dataclass(frozen=True, slots=True)
class Destination:
    """The target of a request. `address` is set if the host is an address; `path` has the query."""

    scheme: str
    host: str
    port: int
    path: str
    address: IpAddress | None

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if isinstance(self.address, IPv6Address) else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.path}"


def read_url(text: str, policy: Policy, *, field: str = "url") -> Destination:
    """Parse a URL. Raises Invalid if it is malformed, AddressNotAllowed if it is forbidden."""
    if len(text) > MAX_URL_LENGTH:
        raise Invalid(f"{field} must have at most {MAX_URL_LENGTH:,} characters", field=field)
    if re.search(r"[\x00-\x20\x7f\\]", text):
        raise Invalid(
            f"{field} must not contain spaces, control characters or backslashes", field=field
        )
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise Invalid(f"{field} is not a valid URL", field=field) from None
    scheme = parts.scheme.lower()
    if scheme not in _PORTS:
        raise Invalid(f"{field} must begin with https://", field=field)
    if "@" in parts.netloc:
        raise Invalid(f"{field} must not contain a user or password", field=field)
    if scheme == "http" and not policy.allow_http:
        raise AddressNotAllowed("Only https is allowed", field=field)
    host, address = _host(parts.netloc, parts.hostname or "", field)
    port = _PORTS[scheme] if port is None else port
    if not policy.allows_port(port):
        raise AddressNotAllowed("The port is not allowed", field=field)
    if address is not None and not policy.allows(address, port):
        raise AddressNotAllowed(field=field)
    query = f"?{parts.query}" if parts.query else ""
    return Destination(
        scheme, host, port, quote(f"{parts.path or '/'}{query}", safe=_SAFE), address
    )


def _host(netloc: str, host: str, field: str) -> tuple[str, IpAddress | None]:
    """Return the host in canonical form, and its address if it is one."""
    if netloc.startswith("["):
        address = parse_address(host)
        if not isinstance(address, IPv6Address) or not _BRACKETS.fullmatch(netloc):
            raise Invalid(f"{field} has an invalid host address", field=field)
        return address.compressed, address
    name = _ascii(host, field)
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        address = parse_address(name)
        if address is None:
            raise AddressNotAllowed(
                "IPv4 addresses must be written as four decimal numbers", field=field
            )
        return str(address), address
    labels = name.split(".")
    if len(name) > 253 or not all(map(_LABEL.fullmatch, labels)):
        raise Invalid(f"{field} has an invalid host name", field=field)
    if len(labels) == 1 or labels[-1] in _NOT_PUBLIC:
        raise AddressNotAllowed(field=field)
    return name, None


def _ascii(host: str, field: str) -> str:
    """Return the name in lower case and ASCII (IDNA), without the trailing dot."""
    name = host.lower()
    if not name.isascii():
        try:
            name = idna.encode(name, uts46=True).decode()
        except idna.IDNAError:
            raise Invalid(f"{field} has an invalid host name", field=field) from None
    return name.removesuffix(".")
