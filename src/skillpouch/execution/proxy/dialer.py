"""Dialer: looks up names and connects, within limits for all calls together."""

import asyncio
import contextlib
import resource
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from skillpouch.execution.proxy.allowlist import Allowlist
from skillpouch.net.hosts import Host

Resolve = Callable[[str], Awaitable[Sequence[str]]]
Connect = Callable[[str, int], Awaitable[socket.socket]]

# For each lookup and each address; resolvers and programs give up after five to thirty seconds.
_LOOK_UP_SECONDS = 10.0
_CONNECT_SECONDS = 10.0
_MOST_LOOK_UPS = 16  # threads: a slow name server may block each, and a thread cannot be cancelled
_MOST_ADDRESSES = 8  # tried one after another, each for up to _CONNECT_SECONDS
_MOST_CONNECTIONS = 512


def most_connections() -> int:
    """Return how many connections all tools together may have.

    Each needs two descriptors of this process; an eighth of the limit leaves the host three
    quarters.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(4, min(_MOST_CONNECTIONS, soft // 8))


class UnreachableError(Exception):
    """A granted host could not be reached."""


class Dialer:
    """Connects to granted hosts, at addresses that it has checked itself.

    All tools together have at most `most` connections; `resolve` and `connect` default to those of
    the operating system.
    """

    def __init__(
        self, *, most: int, resolve: Resolve | None = None, connect: Connect | None = None
    ) -> None:
        self._free = most
        self._resolve = resolve or self._look_up
        self._connect = connect or connect_to
        self._threads: ThreadPoolExecutor | None = None

    def take_place(self) -> bool:
        """Count one more connection; return False when the limit is reached."""
        if self._free <= 0:
            return False
        self._free -= 1
        return True

    def give_place_back(self) -> None:
        self._free += 1

    async def dial(
        self, host: Host, granted: Allowlist, turn: asyncio.Semaphore | None = None
    ) -> socket.socket:
        """Return a connection to the host; `turn` limits name lookups at a time.

        It connects to the address that was checked and never resolves the name again: the next
        answer could be another address.

        Raises:
            RefusedHostError: it was not granted, or one of its addresses may not be reached.
            UnreachableError: it has no address, or nothing answers there.
        """
        granted.check_host(host)
        addresses = [host.name] if host.is_address else await self._addresses(host.name, turn)
        for address in addresses:
            granted.check_address(host, address)
        assert host.port is not None
        for address in addresses[:_MOST_ADDRESSES]:
            # Covers TimeoutError, which is an OSError.
            with contextlib.suppress(OSError):
                async with asyncio.timeout(_CONNECT_SECONDS):
                    return await self._connect(address, host.port)
        raise UnreachableError(f"nothing answers at {host}")

    async def _addresses(self, name: str, turn: asyncio.Semaphore | None) -> Sequence[str]:
        try:
            async with asyncio.timeout(_LOOK_UP_SECONDS), turn or contextlib.nullcontext():
                addresses = await self._resolve(name)
        except (OSError, UnicodeError):
            addresses = ()
        if not addresses:
            raise UnreachableError(f"{name} has no address")
        return addresses

    async def _look_up(self, name: str) -> Sequence[str]:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_MOST_LOOK_UPS, "skillpouch-look-up")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, _addresses_of, name)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None


def _addresses_of(name: str) -> tuple[str, ...]:
    found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


async def connect_to(address: str, port: int) -> socket.socket:
    """Connect to a literal address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # Data is forwarded at once: Nagle's algorithm, tcp(7), would add to the delays of both
        # ends.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock
