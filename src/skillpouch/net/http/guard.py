"""Decides which addresses may be dialled, and dials exactly the address that was checked."""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urljoin

import httpcore2

from skillpouch.errors import CallDeniedError, PortableError
from skillpouch.net.hosts import (
    Host,
    HostError,
    covers_host,
    is_elsewhere,
    is_private_name,
    read_host,
)


class InsideAddressError(CallDeniedError):
    """A granted host resolves to an ungranted address of this machine or its network."""

    code = "address_refused"

    def __init__(self, host: Host, address: str, *, skill: str = "NAME") -> None:
        self.host = host
        self.address = address
        self.granting = str(Host(address, host.port, is_address=True))
        super().__init__(
            f"{host.name} resolves to {address}, an address of this machine or its network: "
            "nothing was sent",
            hint=f"to allow it, run `skillpouch trust {skill} --host {self.granting}`",
        )


class ExchangeError(PortableError):
    """A request was sent, or should have been, and got no usable answer.

    `code` is what the result says; the message is for people and never holds a secret.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class PlanError(PortableError, ValueError):
    """An invalid declaration of a request; `at`: the field, `in_template`: its template is bad."""

    def __init__(self, message: str, at: str = "", *, in_template: bool = False) -> None:
        self.at = at
        self.in_template = in_template
        super().__init__(f"{at}: {message}" if at else message)


Resolve = Callable[[str], Awaitable[Sequence[str]]]

# When one of several addresses does not answer within this time, the next one is tried.
_SECONDS_EACH = 4.0
_MOST_ADDRESSES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedHosts:
    """The hosts that were granted to the skill of this name."""

    hosts: tuple[str, ...]
    skill: str = "NAME"

    def covers(self, host: Host) -> bool:
        """Tell whether a host, with its port, may be called."""
        return any(covers_host(granted, str(host)) for granted in self.hosts)

    def check_address(self, host: Host, address: str) -> None:
        """Raise InsideAddressError when a host resolves to an internal address without a grant.

        Anybody can point their own name at any address, so a grant for the name is not enough.
        Either the address is granted too, or only this machine and its network know the name, and
        it was granted by its exact name.
        """
        if is_elsewhere(address) or (not host.is_address and is_private_name(host.name)):
            return
        if not self.covers(Host(address, host.port, is_address=True)):
            raise InsideAddressError(host, address, skill=self.skill)


class Guard(httpcore2.AsyncNetworkBackend):
    """Opens connections to granted hosts only, at addresses that it has checked itself.

    The name is still used for the certificate and the Host header, but it is never resolved again:
    the next time it may lead to another address. `resolve` and `inner` default to those of the
    operating system.
    """

    def __init__(
        self,
        granted: GrantedHosts,
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
        """Refuse: a socket of this machine is not a host."""
        raise ExchangeError("connect", f"{path} is not a host")

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


_URL = re.compile(r"(https?)://([^/?#\\\s@]+)([^#]*)", re.IGNORECASE)
_PORTS = {"http": 80, "https": 443}
# Characters that are allowed in a path and a query; all others are percent-encoded.
_KEPT = "%/?:@!$&'()*+,;=-._~[]"


class BadUrlError(ValueError):
    """A text is not a web address, or one that programs read differently."""


@dataclass(frozen=True, slots=True)
class Url:
    """`host` always has a port; `target` is the path and the query."""

    scheme: str
    host: Host
    target: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def authority(self) -> str:
        """The value of the Host header: without the default port of the scheme."""
        is_usual = self.host.port == _PORTS[self.scheme]
        return str(Host(self.host.name) if is_usual else self.host)

    @property
    def origin(self) -> tuple[str, Host]:
        return self.scheme, self.host


def read_url(text: str) -> Url:
    """Parse an address; raise BadUrlError, also for a user before the host or a backslash."""
    match = _URL.fullmatch(text.partition("#")[0])
    if match is None:
        raise BadUrlError("it is not a plain http or https address")
    scheme = match[1].lower()
    try:
        host = read_host(match[2])
    except HostError as error:
        raise BadUrlError(str(error)) from None
    if "*" in host.name:
        raise BadUrlError("'*' is not a host")
    port = host.port or _PORTS[scheme]
    target = quote(match[3], safe=_KEPT)
    return Url(scheme, Host(host.name, port, is_address=host.is_address), _rooted(target))


def join_url(base: Url, location: str) -> Url:
    """Return where a redirect leads."""
    if "\\" in location:  # browsers read it as a slash, other programs do not
        raise BadUrlError("a backslash is not part of an address")
    try:
        return read_url(urljoin(str(base), location))
    except ValueError as error:
        raise BadUrlError(str(error)) from None


def _rooted(target: str) -> str:
    return target if target.startswith("/") else f"/{target}"
