"""GrpcServer: listens, authenticates clients by token or certificate, and serves until it stops."""

import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from skillpouch.calls import owner_here
from skillpouch.errors import SkillpouchError
from skillpouch.manager import SkillManager
from skillpouch.servers.addresses import Address, require_safe
from skillpouch.servers.admission import Admission
from skillpouch.servers.faults import AddressError, CertificateError
from skillpouch.servers.grpc.jobs import JobService
from skillpouch.servers.grpc.service import Places, Service
from skillpouch.servers.grpc.settings import (
    Context,
    GrpcLimits,
    GrpcSettings,
    authorization_of,
    owner_of,
)
from skillpouch.servers.grpc.statuses import MessageError, TokenNeededError, abort
from skillpouch.servers.grpc.v1.skillpouch_pb2 import DESCRIPTOR, CreateSessionRequest
from skillpouch.servers.lifecycle import Stop, drained
from skillpouch.servers.metrics import Metrics, metrics_page
from skillpouch.servers.tokens import Tokens
from skillpouch.sessions.manager import SessionManager


def credentials_of(settings: GrpcSettings) -> grpc.ServerCredentials | None:
    """Return the certificates to serve with; None is plain text.

    Raises:
        CertificateError: a file cannot be read, or they do not belong together.
    """
    if settings.tls_cert is None:
        for name in (settings.tls_key, settings.tls_client_ca):
            if name is not None:
                raise CertificateError(str(name), "there is no --tls-cert to go with it")
        return None
    _check(settings)
    certificate = _read_pem(settings.tls_cert)
    key = _read_pem(settings.tls_key or settings.tls_cert)
    authority = None if settings.tls_client_ca is None else _read_pem(settings.tls_client_ca)
    return grpc.ssl_server_credentials(
        [(key, certificate)],
        root_certificates=authority,
        require_client_auth=authority is not None,
    )


def _check(settings: GrpcSettings) -> None:
    """Refuse a bad certificate now: gRPC would start, and refuse every client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(str(settings.tls_cert), settings.tls_key)
        if settings.tls_client_ca:
            context.load_verify_locations(settings.tls_client_ca)
    except (OSError, ssl.SSLError) as error:
        raise CertificateError(str(settings.tls_cert), str(error)) from None


def _read_pem(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateError(str(path), (error.strerror or str(error)).lower()) from None


# Whether the server is there is no secret, and those who ask it carry no tokens.
_OPEN = "/grpc.health.v1.Health/"

Continuation = Callable[[grpc.HandlerCallDetails], Awaitable[Any]]


class TokenGate(grpc.aio.ServerInterceptor):
    """Lets requests in that carry `authorization: Bearer TOKEN`."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    async def intercept_service(
        self, continuation: Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> Any:
        """Return the handler of a request, or one that refuses it."""
        if handler_call_details.method.startswith(_OPEN):
            return await continuation(handler_call_details)
        if self._tokens.accepts(authorization_of(handler_call_details.invocation_metadata)):
            return await continuation(handler_call_details)
        return grpc.unary_unary_rpc_method_handler(_refuse)


async def _refuse(_request: Any, context: "grpc.aio.ServicerContext[Any, Any]") -> None:
    await abort(context, TokenNeededError())


Method = Callable[[Any, Context], Awaitable[Any]]
Admit = Callable[[Any, Context], Awaitable[None]]

_DESCRIBED = DESCRIPTOR.services_by_name["Skillpouch"]
SERVICE = _DESCRIBED.full_name


def handlers_of(service: Service, jobs: JobService, admit: Admit) -> Any:
    """Return what a gRPC server is given to serve `skillpouch.v1.Skillpouch`.

    `admit` is asked about each request first.
    """
    methods: dict[str, Method] = {
        "CreateSession": service.create_session,
        "DestroySession": service.destroy_session,
        "UseSkill": service.use_skill,
        "RemoveSkill": service.remove_skill,
        "ListActiveSkills": service.list_active_skills,
        "ListProblems": service.list_problems,
        "ListTools": service.list_tools,
        "ExecuteTool": service.execute_tool,
        "StreamTool": service.stream_tool,
        "RunScript": service.run_script,
        "StartTool": jobs.start_tool,
        "ListJobs": jobs.list_jobs,
        "GetJob": jobs.get_job,
        "WaitJob": jobs.wait_job,
        "CancelJob": jobs.cancel_job,
        "ListApprovals": jobs.list_approvals,
        "Answer": jobs.answer,
        "Cancel": service.cancel,
        "ListChanges": service.list_changes,
        "DiffCall": service.diff_call,
        "ApplyCall": service.apply_call,
        "DiscardCall": service.discard_call,
        "UndoCalls": service.undo_calls,
    }
    handlers = {name: _handler(name, method, admit) for name, method in methods.items()}
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _handler(name: str, method: Method, admit: Admit) -> Any:
    described = _DESCRIBED.methods_by_name[name]
    make = grpc.unary_unary_rpc_method_handler
    if described.server_streaming:
        make = grpc.unary_stream_rpc_method_handler
    # Requests stay bytes: of those that are no message gRPC would print a trace and send a name.
    return make(
        _answering(method, admit, GetMessageClass(described.input_type)),
        response_serializer=GetMessageClass(described.output_type).SerializeToString,
    )


def _answering(
    method: Method, admit: Admit, kind: type[Message]
) -> Callable[[bytes, Context], Awaitable[Any]]:
    async def answer(data: bytes, context: Context) -> Any:
        try:
            request = _read(kind, data)
            await admit(request, context)
            return await method(request, context)
        except SkillpouchError as error:
            await abort(context, error)
        except Exception as error:  # noqa: BLE001 - the outermost line: nothing of it may leave
            await abort(context, error)

    return answer


def _read(kind: type[Message], data: bytes) -> Message:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise MessageError("request", f"these bytes are not a {kind.DESCRIPTOR.name}") from None


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
        self._jobs = JobService(manager, self.sessions)
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
        self._jobs.answers = settings.approvals == "client"
        handlers = handlers_of(self._service, self._jobs, partial(self._admit, settings))
        server.add_generic_rpc_handlers((handlers,))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
        return server

    async def _admit(self, settings: GrpcSettings, request: Any, context: Context) -> None:
        """Note who makes a request; raise UnknownSessionError if it names another's session."""
        owner = owner_of(context, settings)
        owner_here.set(owner)  # each request is answered in a context of its own
        session: str = getattr(request, "session_id", "")
        if session and not isinstance(request, CreateSessionRequest):
            await self.sessions.check_owner(session, owner)

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
