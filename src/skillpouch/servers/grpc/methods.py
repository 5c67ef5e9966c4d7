"""Which method of the service answers which request, and what a client hears when it fails."""

from collections.abc import Awaitable, Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from skillpouch.errors import SkillpouchError
from skillpouch.servers.grpc.errors import MessageError
from skillpouch.servers.grpc.service import Context, Service
from skillpouch.servers.grpc.statuses import abort
from skillpouch.servers.grpc.v1.skillpouch_pb2 import DESCRIPTOR

Method = Callable[[Any, Context], Awaitable[Any]]

_DESCRIBED = DESCRIPTOR.services_by_name["Skillpouch"]
SERVICE = _DESCRIBED.full_name


def handlers_of(service: Service) -> Any:
    """Return what a gRPC server is given to serve `skillpouch.v1.Skillpouch`."""
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
        "Cancel": service.cancel,
    }
    handlers = {name: _handler(name, method) for name, method in methods.items()}
    return grpc.method_handlers_generic_handler(SERVICE, handlers)


def _handler(name: str, method: Method) -> Any:
    described = _DESCRIBED.methods_by_name[name]
    make = grpc.unary_unary_rpc_method_handler
    if described.server_streaming:
        make = grpc.unary_stream_rpc_method_handler
    # Requests stay bytes: of those that are no message gRPC would print a trace and send a name.
    return make(
        _answering(method, GetMessageClass(described.input_type)),
        response_serializer=GetMessageClass(described.output_type).SerializeToString,
    )


def _answering(method: Method, kind: type[Message]) -> Callable[[bytes, Context], Awaitable[Any]]:
    async def answer(data: bytes, context: Context) -> Any:
        try:
            return await method(_read(kind, data), context)
        except SkillpouchError as error:
            await abort(context, error)
        except Exception as error:  # noqa: BLE001 - the outermost line: nothing of it may leave
            await abort(context, error)

    return answer


def _read(kind: type[Message], data: bytes) -> Message:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise MessageError("request", f"those bytes are no {kind.DESCRIPTOR.name}") from None
