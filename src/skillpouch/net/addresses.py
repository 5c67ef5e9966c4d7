"""Addresses that are on the internet, and those that only look as if they were."""

import socket
import struct
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from skillpouch.net.hosts import HostError, is_private_name, read_host

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


def is_elsewhere(address: str) -> bool:
    """Tell whether an address is on the internet, and neither ours nor a neighbour's.

    A public address may be one of this machine, where a service listens that a firewall hides
    from others, or of the next machine on the same wire. Only the routes of this moment tell, so
    the kernel is asked each time; it takes some twenty microseconds.
    """
    if not is_public(address):
        return False
    found = ip_address(address)
    inner = None if isinstance(found, IPv4Address) else _inside_of(found)
    return not any(_is_near(each) for each in (found, inner) if each is not None)


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


# rtnetlink(7). FIB_MATCH (Linux 4.13) gives the route itself, with the length of its prefix.
_GET_ROUTE, _ERROR, _REQUEST, _FIB_MATCH = 26, 2, 1, 0x2000
_DESTINATION, _GATEWAY, _MULTIPATH, _VIA = 1, 5, 9, 18
_UNICAST = 1  # others are local, broadcast, anycast, or lead nowhere
_MESSAGE, _ROUTE, _ATTRIBUTE = (struct.Struct(form) for form in ("=IHHII", "=8BI", "=HH"))
# A tunnel may carry the whole internet without any gateway: what is wider than this is no
# network of neighbours.
_WIDEST = {4: 8, 6: 32}


def _is_near(address: IPv4Address | IPv6Address) -> bool:
    """Tell whether an address is one of this machine, or is reached without a gateway."""
    try:
        kind, prefix, has_gateway = _route_to(address)
    except (OSError, AttributeError):  # no netlink here, as on other systems
        return _is_own(address)
    return kind != _UNICAST or (not has_gateway and prefix >= _WIDEST[address.version])


def _route_to(address: IPv4Address | IPv6Address) -> tuple[int, int, bool]:
    """Return the type of the route to an address, how long its prefix is, and if it has a gateway.

    Where there is no route, nothing is reached: that is told as a route by a gateway.
    """
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004
    raw = address.packed
    route = _ROUTE.pack(family, len(raw) * 8, 0, 0, 0, 0, 0, 0, _FIB_MATCH)
    body = route + _ATTRIBUTE.pack(_ATTRIBUTE.size + len(raw), _DESTINATION) + raw
    head = _MESSAGE.pack(_MESSAGE.size + len(body), _GET_ROUTE, _REQUEST, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as sock:
        sock.sendto(head + body, (0, 0))
        answer = sock.recv(65536)
    length, kind, *_ = _MESSAGE.unpack_from(answer)
    if kind == _ERROR:
        return _UNICAST, 0, True
    fields = _ROUTE.unpack_from(answer, _MESSAGE.size)
    named = set(_attributes(answer[_MESSAGE.size + _ROUTE.size : length]))
    return fields[7], fields[1], not named.isdisjoint({_GATEWAY, _MULTIPATH, _VIA})


def _attributes(data: bytes) -> list[int]:
    found = []
    while len(data) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(data)
        found.append(kind)
        data = data[max((size + 3) & ~3, _ATTRIBUTE.size) :]
    return found


def _is_own(address: IPv4Address | IPv6Address) -> bool:
    """Tell whether this machine talks to an address from that very address; nothing is sent."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((str(address), 9))
        except OSError:
            return False
        return ip_address(sock.getsockname()[0]) == address
