"""Keys of callers without a name: their addresses."""

from __future__ import annotations

import ipaddress

IPV6_PREFIX = 64
"""Bits of an IPv6 address that identify a caller: one host usually owns a whole /64."""


def address_key(address: str, *, ipv6_prefix: int = IPV6_PREFIX) -> str:
    """Returns the key of an address: `ip:192.0.2.7`, or the IPv6 network `ip:2001:db8:1:2::/64`.

    `ipv6_prefix` is 1 to 128 bits; with 128, each address is its own key. An IPv4-mapped
    address counts as its IPv4 address. A text that is not an address is appended to `ip:`
    unchanged.
    """
    if not 1 <= ipv6_prefix <= 128:
        raise ValueError(f"ipv6_prefix is {ipv6_prefix}, expected 1 to 128")
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return f"ip:{address}"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return f"ip:{parsed.ipv4_mapped}"
        if ipv6_prefix < 128:
            return f"ip:{ipaddress.IPv6Network((parsed, ipv6_prefix), strict=False)}"
    return f"ip:{parsed}"
