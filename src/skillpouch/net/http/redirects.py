"""Where a redirect leads, and what may be taken along: a pure decision."""

from collections.abc import Callable
from dataclasses import replace

from skillpouch.net.http.addressing import BadUrlError, Url, join_url
from skillpouch.net.http.errors import ExchangeError
from skillpouch.net.http.request import Request

MOST_REDIRECTS = 10
_REDIRECTS = (301, 302, 303, 307, 308)
_KEEPS_METHOD = (307, 308)
_SEE_OTHER = 303


def is_redirect(status: int, location: str) -> bool:
    """Tell whether an answer says to ask elsewhere."""
    return status in _REDIRECTS and bool(location)


def redirected(
    request: Request, status: int, location: str, *, has_secret: Callable[[str], bool]
) -> Request:
    """Return the request to send next; raise ExchangeError when there is none.

    Another origin gets nothing of the skill: no header that it declares, no body. What the first
    server put into the address is its own; a secret in there is not passed on.
    """
    url = _target(request.url, location)
    to_other = url.origin != request.url.origin
    if request.url.scheme == "https" and url.scheme == "http":
        raise _refused(url, "it leads from https to http")
    if to_other and has_secret(location):
        raise _refused(url, "a secret stands in the address")
    keeps = status in _KEEPS_METHOD or request.method in ("GET", "HEAD")
    if keeps and request.content is not None and to_other:
        raise _refused(url, f"a {request.method} with a body is not sent to another host")
    if status not in _KEEPS_METHOD and request.method not in ("GET", "HEAD"):
        # As every client does it, though 301 and 302 do not say so.
        if status != _SEE_OTHER and request.method != "POST":
            raise _refused(url, f"a {request.method} would become a GET")
        request = replace(request, method="GET", content=None)
    return replace(request, url=url, own_headers=() if to_other else request.own_headers)


def _target(base: Url, location: str) -> Url:
    try:
        return join_url(base, location)
    except BadUrlError as error:
        raise ExchangeError(
            "redirect_refused", f"a redirect leads to no address: {error}"
        ) from None


def _refused(url: Url, reason: str) -> ExchangeError:
    where = f"{url.scheme}://{url.authority}"
    return ExchangeError("redirect_refused", f"the redirect to {where} is not followed: {reason}")
