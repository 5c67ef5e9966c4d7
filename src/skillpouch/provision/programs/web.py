"""Asking a server for a file by https: only hosts that were granted, at addresses looked at."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

from skillpouch.needs import Need
from skillpouch.net.hosts import covers_host, host_of_url
from skillpouch.provision.programs.answers import Answer, InterruptedDownloadError, Opener
from skillpouch.trust.errors import UngrantedError

if TYPE_CHECKING:
    from skillpouch.net.http.guard import Guard, Resolve

_CONNECT_SECONDS = 15.0
_IDLE_SECONDS = 30.0


def web_opener(skill: str, hosts: tuple[str, ...], *, resolve: "Resolve | None" = None) -> Opener:
    """Return what asks the hosts that a skill was granted; `resolve` looks names up."""

    def open_url(url: str, headers: Mapping[str, str]) -> AbstractAsyncContextManager[Answer]:
        from skillpouch.net.http.guard import Granted, Guard

        host = host_of_url(url)
        if not host or not any(covers_host(granted, host) for granted in hosts):
            raise UngrantedError(skill, [Need(kind="host", value=host or url)])
        return _open(url, headers, Guard(Granted(hosts=hosts, skill=skill), resolve=resolve))

    return open_url


@asynccontextmanager
async def _open(url: str, headers: Mapping[str, str], guard: "Guard") -> AsyncIterator[Answer]:
    import httpcore2

    from skillpouch.net.http.errors import ExchangeError
    from skillpouch.net.http.pools import GuardedPool

    limits = {"connect": _CONNECT_SECONDS, "read": _IDLE_SECONDS, "write": _IDLE_SECONDS}
    named = list({"user-agent": "skillpouch", **headers}.items())
    lost = (httpcore2.NetworkError, httpcore2.TimeoutException, httpcore2.ProtocolError)
    try:
        async with (
            GuardedPool(guard) as pool,
            pool.stream("GET", url, headers=named, extensions={"timeout": limits}) as response,
        ):
            yield Answer(
                status=response.status,
                headers={
                    name.decode("latin-1").lower(): value.decode("latin-1")
                    for name, value in response.headers
                },
                pieces=response.aiter_stream(),
            )
    except (*lost, ExchangeError) as error:
        raise InterruptedDownloadError(str(error) or type(error).__name__) from None
