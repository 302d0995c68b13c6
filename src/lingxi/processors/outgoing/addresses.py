"""Which addresses a request of a user's making may go to: what the internet routes, less what stands for something else.

The tables are our own, not `ipaddress.is_global`: that one differs between versions of Python, and holds 6to4, translators and
a cloud's control address for global.
"""

from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_REFUSED_V4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # "this network": Linux takes 0.0.0.0 for itself
        "10.0.0.0/8",
        "100.64.0.0/10",  # carriers' NAT; Alibaba's metadata
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's control address: public by its number, and answered by the host
        "169.254.0.0/16",  # link-local; metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments; Oracle's metadata
        "192.0.2.0/24",
        "192.31.196.0/24",  # AS112
        "192.52.193.0/24",  # AMT
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",
        "192.175.48.0/24",  # AS112
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
_UNICAST_V6: Final = IPv6Network(
    "2000::/3"
)  # all else is special: ::1, ::ffff:0:0/96, 64:ff9b::/96, fc00::/7, fe80::/10, ff00::/8 …
_REFUSED_V6: Final = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments: Teredo, ORCHID, benchmarks
        "2001:db8::/32",
        "2002::/16",  # 6to4: an IPv4 address inside
        "2620:4f:8000::/48",  # AS112
        "3ffe::/16",  # 6bone
        "3fff::/20",
    )
)
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)  # upper half of an interface id with an IPv4 address inside


def is_public(address: Address) -> bool:
    """Is it an ordinary address of the internet, that stands for no other?"""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    if address not in _UNICAST_V6 or any(address in network for network in _REFUSED_V6):
        return False
    return (int(address) >> 32) & 0xFFFF_FFFF not in _ISATAP


class AddressRule:
    """Public addresses, and those in `allowed` networks (for inside use)."""

    def __init__(self, allowed: Iterable[Network] = ()) -> None:
        self.allowed = tuple(allowed)

    def is_allowed_inside(self, address: Address) -> bool:
        """Is it in a network that the operator allowed? As it is written: an IPv4 network does not cover mapped addresses."""
        return any(address.version == network.version and address in network for network in self.allowed)

    def permits(self, address: Address) -> bool:
        """May a request go there?"""
        return self.is_allowed_inside(address) or is_public(address)


def as_address(text: str) -> Address | None:
    """An address as resolvers answer it; None for anything else, one with a zone (`fe80::1%eth0`) too."""
    try:
        return None if "%" in text else ip_address(text)
    except ValueError:
        return None
