"""Which addresses a download may dial: public ones, or those that were granted as such."""

import asyncio
import socket
from collections.abc import Iterable
from ipaddress import ip_address
from typing import TYPE_CHECKING

from kitbag.hosts import Host, covers_host
from kitbag.needs import Need
from kitbag.trust.errors import UngrantedError

if TYPE_CHECKING:
    import httpcore2


def guarded_network(skill: str, hosts: tuple[str, ...]) -> "httpcore2.AsyncNetworkBackend":
    """Return what opens connections: it looks a name up once, and dials what it has looked at."""
    import httpcore2

    class Guarded(httpcore2.AnyIOBackend):
        async def connect_tcp(
            self,
            host: str,
            port: int,
            timeout: float | None = None,
            local_address: str | None = None,
            socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
        ) -> httpcore2.AsyncNetworkStream:
            address = await _address(skill, hosts, host, port)
            return await super().connect_tcp(address, port, timeout, local_address, socket_options)

    return Guarded()


async def _address(skill: str, hosts: tuple[str, ...], host: str, port: int) -> str:
    import httpcore2

    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise httpcore2.ConnectError(f"{host} has no address: is it spelt right?") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    for address in addresses:
        inside = str(Host(address, port, is_address=True))
        if not _is_public(address) and not any(covers_host(each, inside) for each in hosts):
            raise UngrantedError(skill, [Need(kind="host", value=inside)])
    return addresses[0]


def _is_public(address: str) -> bool:
    found = ip_address(address.partition("%")[0])
    if found.version == 6:  # noqa: PLR2004
        # An IPv4 address inside another may lead anywhere: mapped, 6to4, NAT64 and the like.
        embedded = found.ipv4_mapped is not None or found.sixtofour is not None
        return found.is_global and not embedded and not str(found).startswith("64:ff9b:")
    return found.is_global and not found.is_multicast
