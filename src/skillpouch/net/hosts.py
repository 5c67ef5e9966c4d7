"""Hosts: one spelling for each, and which of them a granted one covers."""

import re
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from unicodedata import category

# What a host without a port means: the ports of the web.
_WEB = frozenset({80, 443})
_PORT = re.compile(r"[1-9][0-9]{0,4}\Z", re.ASCII)
_HIGHEST_PORT = 65_535
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)\Z", re.ASCII)
_NUMBER = re.compile(r"[0-9]+\Z|0x[0-9a-f]*\Z", re.ASCII)
_LONGEST = 253
_AUTHORITY = re.compile(r"https?://([^/?#\\\s]+)(?:[/?#]|\Z)", re.IGNORECASE | re.ASCII)
# Names that mean something else in every network, and are never on the internet.
_PRIVATE = frozenset(
    {
        *("localhost", "local", "localdomain", "internal", "intranet", "lan", "home", "corp"),
        *("private", "test", "invalid", "arpa", "onion"),
    }
)


class HostError(ValueError):
    """A text that is no host; says why."""


@dataclass(frozen=True, slots=True)
class Host:
    """A host, or with a star in front all hosts below one; `*` alone is every public name."""

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

    Lower case, no dot at the end, punycode for other letters, addresses written out.
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
    """Tell whether a name belongs to this machine or its own network: only exactness grants it."""
    return "." not in name or name.rpartition(".")[2] in _PRIVATE


def covers_host(granted: str, needed: str) -> bool:
    """Tell whether what was granted includes all that is needed. Nothing covers what is no host.

    `*.example.com` covers what is below example.com and not itself; `*` every public name, and
    no address. Without a port a host means 80 and 443.
    """
    try:
        grant, need = read_host(granted), read_host(needed)
    except HostError:
        return False
    return need.ports <= grant.ports and _covers_name(grant, need)


def host_of_url(url: str) -> str:
    """Return the host of a web address; "" when it cannot be told without doubt.

    In doubt is what programs read differently: a user before the host, a backslash, a template.
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

    # Letters, marks and digits only: a full stop of another script is a dot to browsers.
    if any(category(letter)[0] not in "LMN" for letter in label if letter not in "-_"):
        return ""
    try:
        found = ToASCII(label).decode()
        # What does not come back as it went in is spelt differently by different programs.
        return found if found != label and ToUnicode(found) == label else ""
    except UnicodeError:
        return ""


def _ipv4(host: str, text: str, *, is_starred: bool) -> str:
    # `127.1`, `0x7f.1` and `2130706433` are addresses to some programs, and names to others.
    try:
        if is_starred:
            raise HostError(f"{text!r:.80}: an address has nothing below it")
        return str(IPv4Address(host))
    except AddressValueError:
        raise HostError(f"{text!r:.80} is not an address of four numbers") from None


def _address(text: str) -> str:
    try:
        address = IPv6Address(text)
    except AddressValueError:
        raise HostError(f"{text!r:.80} is not an address") from None
    if address.scope_id is not None:
        raise HostError(f"{text!r:.80} names a network card")
    return str(address.ipv4_mapped or address)
