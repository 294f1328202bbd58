"""Which addresses a remote image may come from: those that the whole internet reaches, and no other.

`ipaddress.is_global` alone is not enough: older Pythons get several ranges wrong (CVE-2024-4032), and IPv6 has four
ways to write a private IPv4 address.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

Address = IPv4Address | IPv6Address

_CLOSED_V4 = tuple(
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT, and Alibaba's metadata service
        "127.0.0.0/8",
        "168.63.129.16/32",  # public by number, but Azure's platform service on every Azure machine
        "169.254.0.0/16",  # link-local, and the metadata service of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocol assignments, and Oracle's metadata service
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_OPEN_V6 = IPv6Network("2000::/3")  # all that is routed on the internet today
_CLOSED_V6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo among them
        "2001:db8::/32",
        "2620:4f:8000::/48",
        "3fff::/20",
    )
)
_SIX_TO_FOUR = IPv6Network("2002::/16")
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    """Whether the whole internet reaches this address."""
    if isinstance(address, IPv6Address):
        inner = _embedded(address)
        if inner is not None:
            return is_public(inner)
        return address in _OPEN_V6 and not any(address in network for network in _CLOSED_V6)
    return not any(address in network for network in _CLOSED_V4)


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that a translator would really connect to."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    number = int(address)
    if address in _NAT64:
        return IPv4Address(number & 0xFFFFFFFF)
    if address in _SIX_TO_FOUR:
        return IPv4Address(number >> 80 & 0xFFFFFFFF)
    return None
