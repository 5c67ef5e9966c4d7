"""The way out: a name is looked up once, each answer is checked, a checked one is dialled."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

import httpcore2

from skillpouch.net.addresses import is_elsewhere
from skillpouch.net.hosts import Host, covers_host, is_private_name, read_host
from skillpouch.net.http.errors import ExchangeError, InsideAddressError

Resolve = Callable[[str], Awaitable[Sequence[str]]]

# One of several addresses may lead nowhere: the next one is tried after this.
_SECONDS_EACH = 4.0
_MOST_ADDRESSES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """Hosts as they were granted to the skill of this name."""

    hosts: tuple[str, ...]
    skill: str = "NAME"

    def covers(self, host: Host) -> bool:
        """Tell whether a host, with its port, may be called."""
        return any(covers_host(granted, str(host)) for granted in self.hosts)

    def check_address(self, host: Host, address: str) -> None:
        """Raise InsideAddressError when a host leads inside and nobody said that it may.

        Anybody's name may lead to any address, so granting the name is not enough. Either the
        address is granted too, or the name is one that only this machine and its network know,
        which was granted exactly.
        """
        if is_elsewhere(address) or (not host.is_address and is_private_name(host.name)):
            return
        if not self.covers(Host(address, host.port, is_address=True)):
            raise InsideAddressError(host, address, skill=self.skill)


class Guard(httpcore2.AsyncNetworkBackend):
    """Opens connections to granted hosts only, at addresses that it has looked at itself.

    The name stays what the certificate is checked against and what the server is told; it is
    never looked up again, because it may lead elsewhere the next time. `resolve` and `inner` are
    the operating system's unless others are given.
    """

    def __init__(
        self,
        granted: Granted,
        *,
        resolve: Resolve | None = None,
        inner: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        self._granted = granted
        self._resolve = resolve or _look_up
        self._inner = inner or httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Connect to the first address of a host that answers."""
        asked = Host(host, port, is_address=read_host(host).is_address)
        addresses = [host] if asked.is_address else await self._addresses(host)
        for address in addresses:
            self._granted.check_address(asked, address)
        *others, last = addresses[:_MOST_ADDRESSES]
        for address in others:
            try:
                async with asyncio.timeout(_SECONDS_EACH):
                    return await self._inner.connect_tcp(
                        address, port, timeout, local_address, socket_options
                    )
            except (httpcore2.ConnectError, TimeoutError):
                continue
        return await self._inner.connect_tcp(last, port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ARG002
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,  # noqa: ARG002
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse: a socket of this machine is no host."""
        raise ExchangeError("connect", f"{path} is no host")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _addresses(self, name: str) -> Sequence[str]:
        try:
            addresses = await self._resolve(name)
        except (OSError, UnicodeError):
            addresses = ()
        if not addresses:
            raise ExchangeError("connect", f"{name} has no address: is it spelt right?")
        return addresses


async def _look_up(name: str) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
