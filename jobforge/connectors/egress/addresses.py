"""Which addresses are public; requests of tenants reach no others by default.

The list follows IANA's registries of special-purpose addresses. It does not rely on a library,
because their `is_global` has changed between releases and ignores metadata services and translated
addresses.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

IpAddress = IPv4Address | IPv6Address
IpNetwork = IPv4Network | IPv6Network

_DENIED_4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this host
            "10.0.0.0/8",
            "100.64.0.0/10",  # carrier-grade NAT; includes a metadata service
            "127.0.0.0/8",
            "168.63.129.16/32",  # Azure's wire server, in a public range
            "169.254.0.0/16",  # link-local, and the metadata of most clouds
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.31.196.0/24",
            "192.52.193.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "192.175.48.0/24",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved and broadcast
        ),
    )
)
# Only this block of IPv6 is public; mapped, compatible, unique-local, link-local and multicast
# addresses are outside.
_GLOBAL_6 = IPv6Network("2000::/3")
_DENIED_6 = tuple(
    map(
        IPv6Network,
        (
            "2001::/23",  # IETF assignments, including Teredo
            "2001:db8::/32",
            "2002::/16",  # 6to4 reaches any IPv4 address that the sender encodes
            "2620:4f:8000::/48",
            "3fff::/20",
        ),
    )
)
# An IPv4 address as networks without IPv4 encode it.
_NAT64 = IPv6Network("64:ff9b::/96")


def parse_address(text: str) -> IpAddress | None:
    """Parse an address in its standard spelling; None for anything else, including zone IDs."""
    if "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


def unwrap_ipv4(address: IpAddress) -> IpAddress:
    """Return the IPv4 address that an IPv6 address embeds, or else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    inner = address.ipv4_mapped or address.sixtofour
    if inner is not None:
        return inner
    return address.teredo[1] if address.teredo is not None else address


def is_public(address: IpAddress) -> bool:
    """Return whether this is a public Internet address."""
    if isinstance(address, IPv6Address) and address in _NAT64:
        address = unwrap_ipv4(address)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _DENIED_4)
    return address in _GLOBAL_6 and not any(address in network for network in _DENIED_6)
