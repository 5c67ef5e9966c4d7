"""Connections kept open between calls: one pool for each skill and its grants."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import httpcore2

from skillpouch.environment import variable
from skillpouch.net.http.guard import GrantedHosts, Guard

_CONNECTIONS = 32
_IDLE_CONNECTIONS = 8
# Many servers close an idle connection after five seconds; a request on a closed connection may be
# lost.
_IDLE_SECONDS = 4.0
_MOST_POOLS = 32
_FORGET_SECONDS = 30.0


class GuardedPool(httpcore2.AsyncConnectionPool):
    """Connections that only a guard opens, never through a proxy."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard
        super().__init__(
            max_connections=_CONNECTIONS,
            max_keepalive_connections=_IDLE_CONNECTIONS,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=guard,
        )

    def create_connection(self, origin: httpcore2.Origin) -> httpcore2.AsyncConnectionInterface:
        return httpcore2.AsyncHTTPConnection(
            origin=origin,
            # Reading the certificates takes longer than most answers, so plain http does without.
            ssl_context=tls() if origin.scheme == b"https" else None,
            keepalive_expiry=_IDLE_SECONDS,
            network_backend=self._guard,
        )


def tls() -> ssl.SSLContext:
    """Return the context that checks certificates against those that the user trusts."""
    return _tls(variable("SSL_CERT_FILE"), variable("SSL_CERT_DIR"))


@lru_cache(maxsize=4)
def _tls(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    # It reads the two variables itself; here they are only the cache key.
    return httpcore2.default_ssl_context()


@dataclass(slots=True, kw_only=True)
class _Kept:
    pool: GuardedPool
    users: int = 0
    last_used: float = 0.0
    keeper: "asyncio.Task[None] | None" = field(default=None, repr=False)


_Key = tuple[asyncio.AbstractEventLoop, GrantedHosts]
_kept: dict[_Key, _Kept] = {}


@asynccontextmanager
async def pool_for(granted: GrantedHosts) -> AsyncIterator[GuardedPool]:
    """Lend the pool of these granted hosts: calls with other grants never share its connections."""
    loop = asyncio.get_running_loop()
    key = (loop, granted)
    kept = _kept.get(key) or _new(key)
    kept.users += 1
    try:
        yield kept.pool
    finally:
        kept.users -= 1
        kept.last_used = loop.time()


def _new(key: _Key) -> _Kept:
    loop, granted = key
    if len(_kept) >= _MOST_POOLS:
        _let_one_go(loop)
    kept = _kept[key] = _Kept(pool=GuardedPool(Guard(granted)), last_used=loop.time())
    kept.keeper = loop.create_task(_keep(key, kept), name="skillpouch-http-pool")
    return kept


def _let_one_go(loop: asyncio.AbstractEventLoop) -> None:
    for key in [key for key in _kept if key[0].is_closed()]:
        del _kept[key]
    idle = [kept for key, kept in _kept.items() if key[0] is loop and not kept.users]
    if idle:
        oldest = min(idle, key=lambda kept: kept.last_used)
        if oldest.keeper is not None:
            oldest.keeper.cancel()


async def _keep(key: _Key, kept: _Kept) -> None:
    """Close the pool when it has not been used for a while, or when its loop ends."""
    loop = key[0]
    try:
        while kept.users or loop.time() - kept.last_used < _FORGET_SECONDS:  # noqa: ASYNC110
            await asyncio.sleep(_FORGET_SECONDS)
    finally:
        if _kept.get(key) is kept:
            del _kept[key]
        await kept.pool.aclose()
