"""Host names and addresses: one spelling for each, what a grant covers, what is public."""

import re
import socket
import struct
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address, ip_network
from unicodedata import category

# The ports that a host without a port stands for.
_WEB = frozenset({80, 443})
_PORT = re.compile(r"[1-9][0-9]{0,4}\Z", re.ASCII)
_HIGHEST_PORT = 65_535
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)\Z", re.ASCII)
_NUMBER = re.compile(r"[0-9]+\Z|0x[0-9a-f]*\Z", re.ASCII)
_LONGEST = 253
_AUTHORITY = re.compile(r"https?://([^/?#\\\s]+)(?:[/?#]|\Z)", re.IGNORECASE | re.ASCII)
# Top-level names that each network defines for itself; they never lead to the internet.
_PRIVATE = frozenset(
    {
        *("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp"),
        *("private", "test", "invalid", "arpa", "onion"),
    }
)


class HostError(ValueError):
    """A text is not a host; the message says why."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host; `*.NAME` is every host below NAME, and `*` alone every public name."""

    name: str
    port: int | None = None
    is_address: bool = False

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return name if self.port is None else f"{name}:{self.port}"

    @property
    def ports(self) -> frozenset[int]:
        return _WEB if self.port is None else frozenset({self.port})


@lru_cache(maxsize=4_096)
def read_host(text: str) -> Host:
    """Return the host that a text names, in its one spelling; raise HostError for anything else.

    Lower case, without a dot at the end, other letters in punycode, addresses in canonical form.
    """
    name, port = _split(text)
    if name.startswith("["):
        return Host(_address(name[1:-1]), port, is_address=True)
    name = name.removesuffix(".")
    if name == "*":
        return Host("*", port)
    is_starred = name.startswith("*.")
    labels = [_label(label, text) for label in name.removeprefix("*.").split(".")]
    host = ".".join(labels)
    if len(host) > _LONGEST:
        raise HostError(f"{text!r:.80} is too long for a host")
    if _NUMBER.match(labels[-1]):
        return Host(_ipv4(host, text, is_starred=is_starred), port, is_address=True)
    if not is_starred:
        return Host(host, port)
    if len(labels) == 1 or is_private_name(host):
        raise HostError(f"{text!r} would cover too much: name the hosts")
    return Host(f"*.{host}", port)


def is_private_name(name: str) -> bool:
    """Tell whether a name belongs to this machine or its network: only its exact name grants it."""
    return "." not in name or name.rpartition(".")[2] in _PRIVATE


def covers_host(granted: str, needed: str) -> bool:
    """Tell whether a grant includes a host. A text that is not a host is never covered.

    `*.example.com` covers the hosts below example.com, but not example.com; `*` covers every public
    name, but no address. A host without a port stands for ports 80 and 443.
    """
    try:
        grant, need = read_host(granted), read_host(needed)
    except HostError:
        return False
    return need.ports <= grant.ports and _covers_name(grant, need)


def host_of_url(url: str) -> str:
    """Return the host of a web address; "" when programs could read different hosts from it.

    Ambiguous are a user before the host, a backslash, and a template.
    """
    authority = _AUTHORITY.match(url)
    if authority is None:
        return ""
    try:
        host = read_host(authority[1])
    except HostError:
        return ""
    is_default = host.port == (443 if url[:5].lower() == "https" else 80)
    return "" if "*" in host.name else str(Host(host.name) if is_default else host)


def _covers_name(grant: Host, need: Host) -> bool:
    if grant.name == need.name:
        return True
    if need.is_address or need.name == "*" or not grant.name.startswith("*"):
        return False
    below = need.name.removeprefix("*.")
    if grant.name == "*":
        return not is_private_name(below)
    is_same = need.name.startswith("*.") and below == grant.name[2:]
    return is_same or below.endswith(grant.name[1:])


def _split(text: str) -> tuple[str, int | None]:
    if text.startswith("["):
        name, closing, rest = text.partition("]")
        if not closing or (rest and not rest.startswith(":")):
            raise HostError(f"{text!r:.80} is not a host")
        return f"{name}]", _port(rest[1:], text) if rest else None
    if text.count(":") > 1:  # an IPv6 address without brackets has no port
        return f"[{text}]", None
    name, colon, rest = text.partition(":")
    return name, _port(rest, text) if colon else None


def _port(digits: str, text: str) -> int:
    if not _PORT.match(digits) or int(digits) > _HIGHEST_PORT:
        raise HostError(f"{text!r:.80} has no valid port")
    return int(digits)


def _label(label: str, text: str) -> str:
    found = label.lower() if label.isascii() else _punycode(label)
    if not _LABEL.match(found):
        raise HostError(f"{text!r:.80} is not a host")
    return found


def _punycode(label: str) -> str:
    """Return a label in ASCII, if there is only one way to read it."""
    from encodings.idna import ToASCII, ToUnicode

    # Letters, marks and digits only: browsers read the full stop of another script as a dot.
    if any(category(letter)[0] not in "LMN" for letter in label if letter not in "-_"):
        return ""
    try:
        found = ToASCII(label).decode()
        # Programs spell a name differently when it changes on the way to punycode and back.
        return found if found != label and ToUnicode(found) == label else ""
    except UnicodeError:
        return ""


def _ipv4(host: str, text: str, *, is_starred: bool) -> str:
    # `127.1`, `0x7f.1` and `2130706433` are addresses for some programs, and names for others.
    try:
        if is_starred:
            raise HostError(f"{text!r:.80}: an address has no subdomains")
        return str(IPv4Address(host))
    except AddressValueError:
        raise HostError(f"{text!r:.80} is not an address of four numbers") from None


def _address(text: str) -> str:
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise HostError(f"{text!r:.80} is not an address") from None
    if address.scope_id is not None:
        raise HostError(f"{text!r:.80} names a network interface")
    return str(address.ipv4_mapped or address)


# Not `ipaddress.is_global`: it is true for some addresses that lead to an internal network.
_THIS_MACHINE = "0.0.0.0/8 127.0.0.0/8 ::/128 ::1/128"
_OWN_NETWORKS = "10.0.0.0/8 172.16.0.0/12 192.168.0.0/16 100.64.0.0/10 fc00::/7 fec0::/10"
# Cloud machines fetch their credentials from such addresses; the last one is Azure's.
_LINK = "169.254.0.0/16 fe80::/10 168.63.129.16/32"
_SEVERAL = "224.0.0.0/4 240.0.0.0/4 ff00::/8"
# Tunnels, and obsolete ways to write an IPv4 address as IPv6.
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
# NAT64 (RFC 6052): networks without IPv4 reach every IPv4 host below this prefix, so it cannot be
# refused as a whole.
_NAT64 = ip_network("64:ff9b::/96")


@lru_cache(maxsize=4_096)
def is_public(address: str) -> bool:
    """Tell whether an address is on the internet; false for a text that is not an address."""
    try:
        found = ip_address(address)
    except ValueError:
        return False
    inner = found if isinstance(found, IPv4Address) else _inside_of(found)
    real = found if inner is None else inner
    return not any(real.version == network.version and real in network for network in _INSIDE)


def is_elsewhere(address: str) -> bool:
    """Tell whether an address is on the internet, not this machine's and not on its own network.

    A public address may belong to this machine, where a service may listen that a firewall hides
    from others, or to a machine on the same link. Routes change, so the kernel is asked each time;
    that takes about twenty microseconds.
    """
    if not is_public(address):
        return False
    found = ip_address(address)
    inner = None if isinstance(found, IPv4Address) else _inside_of(found)
    return not any(_is_near(each) for each in (found, inner) if each is not None)


def leads_inside(host: str) -> bool:
    """Tell by its name whether a host belongs to this machine or its network; true if unclear."""
    try:
        found = read_host(host)
    except HostError:
        return True
    if found.is_address:
        return not is_public(found.name)
    return found.name != "*" and is_private_name(found.name)


def _inside_of(address: IPv6Address) -> IPv4Address | None:
    """Return the IPv4 address that packets to this address reach: mapped, 6to4 or NAT64."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour


# rtnetlink(7). FIB_MATCH (Linux 4.13) gives the route itself, with the length of its prefix.
_GET_ROUTE, _ERROR, _REQUEST, _FIB_MATCH = 26, 2, 1, 0x2000
_DESTINATION, _GATEWAY, _MULTIPATH, _VIA = 1, 5, 9, 18
_UNICAST = 1  # RTN_UNICAST; other types are local, broadcast, anycast or unreachable
_MESSAGE, _ROUTE, _ATTRIBUTE = (struct.Struct(form) for form in ("=IHHII", "=8BI", "=HH"))
# A tunnel may route the whole internet without a gateway. So a route with a prefix shorter than
# this many bits does not count as the own network.
_WIDEST = {4: 8, 6: 32}


def _is_near(address: IPv4Address | IPv6Address) -> bool:
    """Tell whether an address is one of this machine, or is reached without a gateway."""
    try:
        kind, prefix, has_gateway = _route_to(address)
    except (OSError, AttributeError):  # there is no netlink outside Linux
        return _is_own(address)
    return kind != _UNICAST or (not has_gateway and prefix >= _WIDEST[address.version])


def _route_to(address: IPv4Address | IPv6Address) -> tuple[int, int, bool]:
    """Return the type of the route to an address, its prefix length, and whether it has a gateway.

    An address without a route cannot be reached: it is reported as a route through a gateway.
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
    """Tell whether this machine would use an address as its own source address; sends nothing."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6  # noqa: PLR2004
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect((str(address), 9))
        except OSError:
            return False
        return ip_address(sock.getsockname()[0]) == address
