"""Sends one request: follows redirects itself, and retries where that is safe."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

import httpcore2

from skillpouch import __version__
from skillpouch.net.http.bodies import decoded, value_of
from skillpouch.net.http.guard import (
    BadUrlError,
    ExchangeError,
    GrantedHosts,
    InsideAddressError,
    Url,
    join_url,
)
from skillpouch.net.http.pools import GuardedPool, pool_for, tls
from skillpouch.net.http.request import HttpRequest, all_headers

MOST_REDIRECTS = 10
_REDIRECTS = (301, 302, 303, 307, 308)
_KEEPS_METHOD = (307, 308)
_SEE_OTHER = 303


def is_redirect(status: int, location: str) -> bool:
    """Tell whether an answer is a redirect."""
    return status in _REDIRECTS and bool(location)


def redirected(
    request: HttpRequest, status: int, location: str, *, has_secret: Callable[[str], bool]
) -> HttpRequest:
    """Return the request to send next; raise ExchangeError when there is none.

    Another origin gets neither the headers that the skill declares nor the body. It gets the
    address that the first server sent, unless there is a secret in it.
    """
    url = _target(request.url, location)
    to_other = url.origin != request.url.origin
    if request.url.scheme == "https" and url.scheme == "http":
        raise _refused(url, "it leads from https to http")
    if to_other and has_secret(location):
        raise _refused(url, "the address contains a secret")
    keeps = status in _KEEPS_METHOD or request.method in ("GET", "HEAD")
    if keeps and request.content is not None and to_other:
        raise _refused(url, f"a {request.method} with a body is not sent to another host")
    if status not in _KEEPS_METHOD and request.method not in ("GET", "HEAD"):
        # Every client turns a POST into a GET after 301 and 302, though they do not ask for it, RFC
        # 9110, 15.4.
        if status != _SEE_OTHER and request.method != "POST":
            raise _refused(url, f"a {request.method} would become a GET")
        request = replace(request, method="GET", content=None)
    return replace(request, url=url, own_headers=() if to_other else request.own_headers)


def _target(base: Url, location: str) -> Url:
    try:
        return join_url(base, location)
    except BadUrlError as error:
        raise ExchangeError(
            "redirect_refused", f"a redirect has no valid address: {error}"
        ) from None


def _refused(url: Url, reason: str) -> ExchangeError:
    where = f"{url.scheme}://{url.authority}"
    return ExchangeError("redirect_refused", f"the redirect to {where} is not followed: {reason}")


# Too many requests, and three statuses of a server that is unavailable for the moment.
_WORTH_A_RETRY = (429, 502, 503, 504)
_FIRST_SECONDS = 0.2
_LONGEST_SECONDS = 30.0


def is_worth_a_retry(status: int) -> bool:
    """Tell whether the same request may succeed a moment later."""
    return status in _WORTH_A_RETRY


def retry_delay(number: int, retry_after: str, remaining: float) -> float | None:
    """Return the seconds to wait before retry `number`, from 0; None when it is not worth it.

    The delay that the server asks for is respected. When it is longer than half of the remaining
    time, or than `_LONGEST_SECONDS`, the answer that was received is final.
    """
    asked = _seconds(retry_after)
    delay = _FIRST_SECONDS * 2**number if asked is None else asked
    return delay if delay <= min(_LONGEST_SECONDS, remaining / 2) else None


def _seconds(retry_after: str) -> float | None:
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after[:9])
    try:
        when = parsedate_to_datetime(retry_after)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - datetime.now(UTC)).total_seconds())


_AGENT = f"skillpouch/{__version__}"
_LOST = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException)


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a request is sent: the granted hosts, the number of retries, the deadline (loop time)."""

    granted: GrantedHosts
    retries: int
    deadline: float
    has_secret: Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """The last server's answer, its body not read yet; `request` is the one that was answered."""

    request: HttpRequest
    response: httpcore2.Response
    headers: list[tuple[str, str]]  # names in lower case

    @property
    def reason(self) -> str:
        phrase = self.response.extensions.get("reason_phrase", b"")
        return phrase.decode("latin-1") if isinstance(phrase, bytes) else ""


@asynccontextmanager
async def exchange(request: HttpRequest, way: Way) -> AsyncIterator[HttpResponse]:
    """Send a request and follow redirects; the connection returns to its pool, or is closed.

    Raises ExchangeError when there is no answer, InsideAddressError when the first address is
    refused, so that nothing was sent.
    """
    async with pool_for(way.granted) as pool:
        answer = await _answered(pool, request, way)
        try:
            yield answer
        finally:
            await answer.response.aclose()


async def _answered(pool: GuardedPool, request: HttpRequest, way: Way) -> HttpResponse:
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
            return HttpResponse(request=request, response=response, headers=headers)
        await response.aclose()
        request = redirected(request, response.status, location, has_secret=way.has_secret)
        if not way.granted.covers(request.url.host):
            raise _ungranted(request, way)
    raise ExchangeError("too_many_redirects", f"it redirects more than {MOST_REDIRECTS} times")


def _ungranted(request: HttpRequest, way: Way) -> ExchangeError:
    host = request.url.authority
    return ExchangeError(
        "redirect_refused",
        f"it redirects to {host}, which is not granted: "
        f"`skillpouch trust {way.granted.skill} --host {host}`",
    )


async def _with_retries(pool: GuardedPool, request: HttpRequest, way: Way) -> httpcore2.Response:
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
    pool: GuardedPool, request: HttpRequest
) -> tuple[httpcore2.Response | None, Exception | None]:
    if request.url.scheme == "https" and not pool.connections:
        await asyncio.to_thread(tls)  # reading certificates would block the event loop
    try:
        return await pool.handle_async_request(_wire(request)), None
    except _LOST as error:
        return None, error


def _wire(request: HttpRequest) -> httpcore2.Request:
    url = request.url
    return httpcore2.Request(
        method=request.method,
        url=httpcore2.URL(
            scheme=url.scheme, host=url.host.name, port=url.host.port, target=url.target
        ),
        headers=all_headers(request, _AGENT),
        content=request.content,
    )


def _no_answer(request: HttpRequest, error: Exception | None) -> ExchangeError:
    host = request.url.authority
    if isinstance(error, httpcore2.ConnectError):
        return ExchangeError("connect", f"cannot connect to {host}: {_reason(error)}")
    if isinstance(error, httpcore2.LocalProtocolError):
        # Its message repeats the header, secrets included.
        return ExchangeError("request", "this request cannot be sent: look at its headers")
    return ExchangeError("no_answer", f"{host} gave no answer: {_reason(error)}")


def _reason(error: BaseException | None) -> str:
    """Return the message of the operating system: the errors that wrap it say less."""
    found = error
    while found is not None and (deeper := found.__cause__ or found.__context__) is not None:
        found = deeper
    if isinstance(found, OSError) and found.errno and not isinstance(found, ssl.SSLError):
        return os.strerror(found.errno).lower()
    return str(error) or type(error).__name__
