"""Sending a request and getting its answer: redirects by hand, retries where they do no harm."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpcore2

from skillpouch import __version__
from skillpouch.net.http.errors import ExchangeError, InsideAddressError
from skillpouch.net.http.guard import Granted
from skillpouch.net.http.headers import decoded, value_of
from skillpouch.net.http.pools import GuardedPool, pool_for, tls
from skillpouch.net.http.redirects import MOST_REDIRECTS, is_redirect, redirected
from skillpouch.net.http.request import Request, all_headers
from skillpouch.net.http.retries import is_worth_a_retry, retry_delay

_AGENT = f"skillpouch/{__version__}"
_LOST = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a request is sent: to which hosts, how often again, until when on the loop's clock."""

    granted: Granted
    retries: int
    deadline: float
    has_secret: Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of the last server; its body is still to be read. `request` is what it answers."""

    request: Request
    response: httpcore2.Response
    headers: list[tuple[str, str]]  # names in lower case

    @property
    def reason(self) -> str:
        phrase = self.response.extensions.get("reason_phrase", b"")
        return phrase.decode("latin-1") if isinstance(phrase, bytes) else ""


@asynccontextmanager
async def exchange(request: Request, way: Way) -> AsyncIterator[Answer]:
    """Send a request and follow redirects; the connection is given back, or closed, at the end.

    Raises ExchangeError when there is no answer, InsideAddressError when the very first address
    is refused and so nothing was sent.
    """
    async with pool_for(way.granted) as pool:
        answer = await _answered(pool, request, way)
        try:
            yield answer
        finally:
            await answer.response.aclose()


async def _answered(pool: GuardedPool, request: Request, way: Way) -> Answer:
    for hop in range(MOST_REDIRECTS + 1):
        try:
            response = await _with_retries(pool, request, way)
        except InsideAddressError as error:
            if not hop:
                raise
            raise ExchangeError("address_refused", f"{error}; {error.hint}") from None
        headers = decoded(response.headers)
        location = value_of("location", headers)
        if not is_redirect(response.status, location):
            return Answer(request=request, response=response, headers=headers)
        await response.aclose()
        request = redirected(request, response.status, location, has_secret=way.has_secret)
        if not way.granted.covers(request.url.host):
            raise _ungranted(request, way)
    raise ExchangeError("too_many_redirects", f"it redirects more than {MOST_REDIRECTS} times")


def _ungranted(request: Request, way: Way) -> ExchangeError:
    host = request.url.authority
    return ExchangeError(
        "redirect_refused",
        f"it redirects to {host}, which is not granted: "
        f"`skillpouch trust {way.granted.skill} --host {host}`",
    )


async def _with_retries(pool: GuardedPool, request: Request, way: Way) -> httpcore2.Response:
    for number in range(way.retries + 1):
        response, lost = await _once(pool, request)
        if response is not None and not is_worth_a_retry(response.status):
            return response
        after = value_of("retry-after", decoded(response.headers)) if response else ""
        remaining = way.deadline - asyncio.get_running_loop().time()
        delay = retry_delay(number, after, remaining) if number < way.retries else None
        if delay is None and response is not None:
            return response
        if delay is None:
            raise _no_answer(request, lost)
        if response is not None:
            await response.aclose()
        await asyncio.sleep(delay)
    raise AssertionError("the last try returns or raises")


async def _once(
    pool: GuardedPool, request: Request
) -> tuple[httpcore2.Response | None, Exception | None]:
    if request.url.scheme == "https" and not pool.connections:
        await asyncio.to_thread(tls)  # reading certificates would hold up everybody else
    try:
        return await pool.handle_async_request(_wire(request)), None
    except _LOST as error:
        return None, error


def _wire(request: Request) -> httpcore2.Request:
    url = request.url
    return httpcore2.Request(
        method=request.method,
        url=httpcore2.URL(
            scheme=url.scheme, host=url.host.name, port=url.host.port, target=url.target
        ),
        headers=all_headers(request, _AGENT),
        content=request.content,
    )


def _no_answer(request: Request, error: Exception | None) -> ExchangeError:
    host = request.url.authority
    if isinstance(error, httpcore2.ConnectError):
        return ExchangeError("connect", f"cannot connect to {host}: {_reason(error)}")
    if isinstance(error, httpcore2.LocalProtocolError):
        # Its words repeat what was to be sent, secrets included.
        return ExchangeError("request", "this is no request that can be sent: look at its headers")
    return ExchangeError("no_answer", f"{host} gave no answer: {_reason(error)}")


def _reason(error: BaseException | None) -> str:
    """Return what the system said at the bottom of it: what wraps that says less."""
    found = error
    while found is not None and (deeper := found.__cause__ or found.__context__) is not None:
        found = deeper
    if isinstance(found, OSError) and found.errno and not isinstance(found, ssl.SSLError):
        return os.strerror(found.errno).lower()
    return str(error) or type(error).__name__
