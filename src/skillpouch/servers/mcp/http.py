"""MCP over Streamable HTTP: the app behind its gate, served until somebody says stop."""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from socket import socket
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings

from skillpouch.servers.addresses import listen, require_safe
from skillpouch.servers.errors import CertificateError
from skillpouch.servers.mcp.gate import Gate
from skillpouch.servers.mcp.settings import HttpSettings, McpLimits
from skillpouch.servers.metrics import Metrics
from skillpouch.servers.tokens import Tokens

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
    """Signals are somebody else's: the first one lets running calls finish."""

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
