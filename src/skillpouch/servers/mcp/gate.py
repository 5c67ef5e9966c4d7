"""Who may come in over HTTP: the right name, no strange web page, a token, and not too many."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from skillpouch.servers.metrics import Metrics
from skillpouch.servers.tokens import Tokens

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]
Reply = tuple[HTTPStatus, str]

_LOOPBACK = frozenset(("localhost", "127.0.0.1", "[::1]"))
_MORE_HEADERS = {
    HTTPStatus.UNAUTHORIZED: (b"www-authenticate", b'Bearer realm="skillpouch"'),
    HTTPStatus.SERVICE_UNAVAILABLE: (b"retry-after", b"1"),
}


class Gate:
    """Stands before the app, and answers what is not for it.

    `/healthz` says that the server lives, `/readyz` that it takes calls; both need no token.
    `/metrics` does. A name `*` is any.
    """

    def __init__(
        self,
        app: App,
        *,
        names: tuple[str, ...],
        origins: tuple[str, ...],
        tokens: Tokens | None,
        most_requests: int,
        metrics: Metrics,
    ) -> None:
        self._app = app
        self._names = frozenset(name.lower() for name in names)
        self._origins = frozenset(origins)
        self._tokens = tokens
        self._most_requests = most_requests
        self._metrics = metrics
        self._inside = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request in, or answer it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1"): text.decode("latin-1") for name, text in scope["headers"]
        }
        reply = self._refusal(scope["path"], headers) or self._page(scope["path"])
        if reply is not None:
            await _answer(send, *reply)
            return
        self._inside += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._inside -= 1

    def _refusal(self, path: str, headers: Mapping[str, str]) -> Reply | None:
        if not self._is_named_so(headers.get("host", "")):
            words = "wrong Host: `skillpouch serve mcp --allow-host NAME` allows another name"
            return HTTPStatus.MISDIRECTED_REQUEST, words
        if not self._is_fine_origin(headers.get("origin"), headers["host"]):
            words = "wrong Origin: `skillpouch serve mcp --allow-origin ORIGIN` allows a web page"
            return HTTPStatus.FORBIDDEN, words
        if path in ("/healthz", "/readyz") or self._tokens is None:
            return None
        if not self._tokens.accepts(headers.get("authorization", "")):
            return HTTPStatus.UNAUTHORIZED, "a bearer token is needed"
        return None

    def _page(self, path: str) -> Reply | None:
        if path == "/healthz":
            return HTTPStatus.OK, "ok"
        if path == "/metrics":
            return HTTPStatus.OK, self._metrics.text()
        if path == "/readyz" and self._metrics.is_ready:
            return HTTPStatus.OK, "ready"
        if path == "/readyz":
            return HTTPStatus.SERVICE_UNAVAILABLE, "stopping"
        if self._inside >= self._most_requests:
            return HTTPStatus.SERVICE_UNAVAILABLE, "too many requests at once: try again later"
        return None

    def _is_named_so(self, host: str) -> bool:
        return bool(host) if "*" in self._names else _name_in(f"//{host}") in self._names

    def _is_fine_origin(self, origin: str | None, host: str) -> bool:
        """A page of this very server, on this machine: a page of another port is another's."""
        if origin is None or origin in self._origins:
            return True
        is_ours = origin.lower() in {f"{scheme}://{host}".lower() for scheme in ("http", "https")}
        return is_ours and _name_in(origin) in self._names & _LOOPBACK


def _name_in(address: str) -> str:
    if "@" in address:  # no name has a user in front of it here
        return ""
    try:
        name = urlsplit(address).hostname or ""
    except ValueError:
        return ""
    return f"[{name}]" if ":" in name else name


async def _answer(send: Send, status: HTTPStatus, text: str) -> None:
    body = f"{text.rstrip()}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    headers += [(b"content-length", b"%d" % len(body))]
    headers += [_MORE_HEADERS[status]] if status in _MORE_HEADERS else []
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": body})
