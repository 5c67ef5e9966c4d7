"""MCP over HTTP: authentication, and one session per client."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from http import HTTPStatus
from socket import socket
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings

from skillpouch.servers.addresses import listen, require_safe
from skillpouch.servers.faults import CertificateError
from skillpouch.servers.mcp.settings import OWNER_KEY, HttpSettings, McpLimits
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
    """Checks requests before the app sees them, and answers those that it refuses.

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
        if self._tokens is not None:
            scope[OWNER_KEY] = self._tokens.owner(headers.get("authorization", ""))
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
        """Tell whether a page comes from this server: the same host on another port does not."""
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


PATH = "/mcp"
_CLOSING_SECONDS = 3

_log = logging.getLogger(__name__)


def gate_of(
    server: Server[Any], settings: HttpSettings, limits: McpLimits, metrics: Metrics
) -> Gate:
    """Return the whole HTTP application of a server."""
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=limits.most_message_bytes,
        max_sessions=limits.most_sessions,
        # The gate looks at every request, of whatever protocol, before anything is read of it.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    tokens = None if settings.token_file is None else Tokens(settings.token_file)
    require_safe(settings.address, has_tokens=tokens is not None)
    names = (*settings.address.names, *settings.allowed_hosts)
    if not settings.address.is_loopback and not settings.allowed_hosts:
        names = ("*",)  # who has to say a token cannot be sent here by a web page's trick
    return Gate(
        app,
        names=names,
        origins=settings.allowed_origins,
        tokens=tokens,
        most_requests=limits.most_requests,
        metrics=metrics,
    )


class HttpServer:
    """One listening server; `url` is known before anybody can connect."""

    def __init__(self, gate: Gate, settings: HttpSettings) -> None:
        _check_certificate(settings)
        self._socket: socket = listen(settings.address)
        port = self._socket.getsockname()[1]
        self.url = f"{settings.scheme}://{replace(settings.address, port=port)}{PATH}"
        self._server = _Uvicorn(_configuration(gate, settings))

    async def serve(self, ready: Callable[[], None], until: Callable[[], Awaitable[None]]) -> None:
        """Serve until `until` returns, then close what is still open and return."""
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket]))
        try:
            await _first(asyncio.create_task(self._server.up.wait()), serving)
            if not serving.done():
                ready()
                await _first(asyncio.ensure_future(until()), serving)
        finally:
            self._server.should_exit = True
            with suppress(asyncio.CancelledError):
                await serving
            self._socket.close()


async def _first(wanted: "asyncio.Future[Any]", serving: "asyncio.Task[None]") -> None:
    await asyncio.wait([wanted, serving], return_when=asyncio.FIRST_COMPLETED)
    wanted.cancel()


class _Uvicorn(uvicorn.Server):
    """Leaves signals to `servers.lifecycle`, where the first one lets running calls finish."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket] | None = None) -> None:
        """Say when clients can connect."""
        await super().startup(sockets)
        self.up.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the handlers as they are."""
        yield


def _configuration(gate: Gate, settings: HttpSettings) -> uvicorn.Config:
    return uvicorn.Config(
        gate,
        log_config=None,
        access_log=False,
        lifespan="on",
        server_header=False,
        timeout_graceful_shutdown=_CLOSING_SECONDS,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key and str(settings.tls_key),
        ssl_ca_certs=settings.tls_client_ca and str(settings.tls_client_ca),
        ssl_cert_reqs=ssl.CERT_REQUIRED if settings.tls_client_ca else ssl.CERT_NONE,
    )


def _check_certificate(settings: HttpSettings) -> None:
    if settings.tls_cert is None:
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
        if settings.tls_client_ca:
            context.load_verify_locations(settings.tls_client_ca)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError(str(settings.tls_cert), str(error)) from None
