"""Addresses that are on the internet, and those that only look as if they were."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from kitbag.hosts import HostError, is_private_name, read_host

# Written out, because `is_global` is true for addresses that lead inside by another way.
_THIS_MACHINE = "0.0.0.0/8 127.0.0.0/8 ::/128 ::1/128"
_OWN_NETWORKS = "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7 fec0::/10"
# Cloud machines learn their keys at such addresses; the last one is Azure's.
_LINK = "169.254.0.0/16 fe80::/10 168.63.129.16/32"
_SEVERAL = "224.0.0.0/4 240.0.0.0/4 ff00::/8"
# Tunnels, and IPv4 addresses written as IPv6 in ways that nobody needs any more.
_DETOURS = "::/96 ::ffff:0:0:0/96 2001::/23 64:ff9b:1::/48"
_SET_ASIDE = (
    "192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 "
    "100::/64 2001:db8::/32 3fff::/20 5f00::/16"
)
_INSIDE = tuple(
    ip_network(network)
    for line in (_THIS_MACHINE, _OWN_NETWORKS, _LINK, _SEVERAL, _DETOURS, _SET_ASIDE)
    for network in line.split()
)
# What a network without IPv4 makes of every IPv4 address: it must not be refused as a whole.
_NAT64 = ip_network("64:ff9b::/96")


@lru_cache(maxsize=4_096)
def is_public(address: str) -> bool:
    """Tell whether an address is on the internet; what is no address is not."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    inner = found if isinstance(found, IPv4Address) else _inside_of(found)
    real = found if inner is None else inner
    return not any(real.version == network.version and real in network for network in _INSIDE)


def leads_inside(host: str) -> bool:
    """Tell whether a host is of this machine or its network by what it is called; in doubt yes."""
    try:
        found = read_host(host)
    except HostError:
        return True
    if found.is_address:
        return not is_public(found.name)
    return found.name != "*" and is_private_name(found.name)


def _inside_of(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that packets to this one end up at: mapped, 6to4 or NAT64."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour
