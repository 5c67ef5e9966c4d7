"""GrpcServer: a manager's tools and sessions over gRPC, until somebody says stop."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from skillpouch.manager import SkillManager
from skillpouch.servers.addresses import Address, require_safe
from skillpouch.servers.admission import Admission
from skillpouch.servers.draining import drained
from skillpouch.servers.errors import AddressError
from skillpouch.servers.grpc.certificates import credentials_of
from skillpouch.servers.grpc.gate import TokenGate
from skillpouch.servers.grpc.methods import SERVICE, handlers_of
from skillpouch.servers.grpc.places import Places
from skillpouch.servers.grpc.service import Service
from skillpouch.servers.grpc.settings import GrpcLimits, GrpcSettings
from skillpouch.servers.metrics import Metrics
from skillpouch.servers.metrics_page import metrics_page
from skillpouch.servers.stopping import Stop
from skillpouch.servers.tokens import Tokens
from skillpouch.sessions.manager import SessionManager

_CLOSING_SECONDS = 3.0
_SERVING = health_pb2.HealthCheckResponse.SERVING

_log = logging.getLogger(__name__)


class GrpcServer:
    """Serves `skillpouch.v1.Skillpouch`, health and reflection.

    Every call goes through an executor: of the manager, or of a session. `sessions` are made over
    the manager unless given. Skills are watched while it serves, unless `watch` says no.
    """

    def __init__(
        self,
        manager: SkillManager,
        *,
        sessions: SessionManager | None = None,
        watch: bool = True,
        limits: GrpcLimits | None = None,
    ) -> None:
        self._manager = manager
        self._watch = watch
        self._limits = limits or GrpcLimits()
        self.sessions = sessions or SessionManager(manager)
        self.admission = Admission(
            most_running=self._limits.most_running, most_waiting=self._limits.most_waiting
        )
        self.metrics = Metrics(self.admission)
        self._service = Service(
            manager,
            self.sessions,
            Places(self.admission, self._limits),
            self.metrics,
            self._limits.most_unread_bytes,
        )
        self._health = health.aio.HealthServicer()

    async def serve(
        self,
        settings: GrpcSettings | None = None,
        *,
        stop: Stop | None = None,
        ready: Callable[[str], None] = lambda _address: None,
    ) -> None:
        """Listen for clients until `stop` is asked; `ready` is told the address."""
        settings = settings or GrpcSettings()
        server = self._server(settings)
        address = _listen(server, settings)
        async with AsyncExitStack() as stack:
            if self._watch:
                await stack.enter_async_context(self._manager.watch())
            if settings.metrics is not None:
                await stack.enter_async_context(metrics_page(settings.metrics, self.metrics))
            async with self._started(server):
                ready(str(address))
                await self._until(stop or Stop())

    async def _until(self, stop: Stop) -> None:
        """Wait until asked to stop; say so at once, let calls finish, and end those that do not."""
        await stop.asked.wait()
        await self._health.enter_graceful_shutdown()
        if not await drained(stop, self.admission, self._limits.drain_seconds):
            await self._service.running.cancel_all()

    def _server(self, settings: GrpcSettings) -> grpc.aio.Server:
        tokens = None if settings.token_file is None else Tokens(settings.token_file)
        is_asked = tokens is not None or settings.tls_client_ca is not None
        require_safe(settings.address, has_tokens=is_asked)
        if tokens is not None and not settings.tls_cert and not settings.address.is_loopback:
            _log.warning("tokens travel in plain text: add --tls-cert and --tls-key")
        server = grpc.aio.server(
            interceptors=[] if tokens is None else [TokenGate(tokens)],
            options=_options(self._limits),
            maximum_concurrent_rpcs=self._limits.most_requests,
        )
        server.add_generic_rpc_handlers((handlers_of(self._service),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
        return server

    @asynccontextmanager
    async def _started(self, server: grpc.aio.Server) -> AsyncIterator[None]:
        await server.start()
        for name in ("", SERVICE):
            await self._health.set(name, _SERVING)
        try:
            yield
        finally:
            await server.stop(_CLOSING_SECONDS)
            await self.sessions.close()


def _options(limits: GrpcLimits) -> list[tuple[str, Any]]:
    return [
        ("grpc.max_receive_message_length", limits.most_message_bytes),
        ("grpc.max_send_message_length", -1),
        # Otherwise two servers at one port would each get some of the requests.
        ("grpc.so_reuseport", 0),
    ]


def _listen(server: grpc.aio.Server, settings: GrpcSettings) -> Address:
    text = str(settings.address)
    credentials = credentials_of(settings)
    try:
        if credentials is None:
            port = server.add_insecure_port(text)
        else:
            port = server.add_secure_port(text, credentials)
    except RuntimeError:
        port = 0
    if not port:
        hint = "name another port, or 0"
        raise AddressError(text, "it is taken, or not of this machine", hint=hint)
    return replace(settings.address, port=port)
