"""Where a server listens: on loopback, unless clients must authenticate."""

import ipaddress
import socket
from dataclasses import dataclass

from skillpouch.servers.faults import AddressError

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_HIGHEST_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A host and a port; port 0 means any that is free."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only programs of this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def names(self) -> tuple[str, ...]:
        """The host names by which clients may address this server."""
        own = f"[{self.host}]" if ":" in self.host else self.host
        return tuple(dict.fromkeys((*(_LOOPBACK_NAMES if self.is_loopback else ()), own)))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """Read `HOST:PORT`, `[::1]:PORT`, `:PORT` or `PORT`; the host is loopback unless named."""
    host, separator, port = text.rpartition(":")
    if not separator:
        host = ""
    if not port.isascii() or not port.isdecimal() or int(port) > _HIGHEST_PORT:
        raise AddressError(text, "there is no port", hint="write HOST:PORT, as in 127.0.0.1:8000")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise AddressError(text, "it is not clear which part is the port", hint="write [::1]:8000")
    return Address(host=host or "127.0.0.1", port=int(port))


def require_safe(address: Address, *, has_tokens: bool) -> None:
    """Refuse to let everybody on a network run tools."""
    if not address.is_loopback and not has_tokens:
        raise AddressError(
            str(address),
            "other machines could connect without authentication",
            hint="add --token-file FILE, or listen at 127.0.0.1",
        )


def listen(address: Address, *, backlog: int = 1_024) -> socket.socket:
    """Return a listening socket; raise when the address cannot be used."""
    try:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, place = found[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise AddressError(str(address), _reason(error)) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(backlog)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise AddressError(str(address), _reason(error), hint="name another port, or 0") from None
    return listener


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
