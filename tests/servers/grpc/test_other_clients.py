"""Clients that know nothing of Skillpouch: one made of the proto by Node, one of reflection."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from skillpouch.servers.grpc import v1
from tests.servers.grpc.conftest import NewServer
from tests.servers.grpc.serving import PATIENCE_SECONDS, listening
from tests.servers.grpc.test_sessions import SHOUT

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[3]
CLIENTS = REPOSITORY / "build/clients"
PROTO = Path(str(v1.__file__)).with_name("skillpouch.proto")


async def test_a_client_that_node_makes_of_the_proto_runs_a_session(new_server: NewServer) -> None:
    async with listening(new_server()) as address:
        told = await by_node({"address": address, "proto": str(PROTO), "skill": SHOUT})

    assert told == {
        "used": ["shout"],
        "content": "HÉ",
        "exit": 0,
        "streamed": {"printed": "HÉ\n", "result": "ok"},
        "removed": ["shout"],
        "refused": grpc.StatusCode.NOT_FOUND.value[0],
        "gone": grpc.StatusCode.NOT_FOUND.value[0],
    }


async def by_node(order: dict[str, Any]) -> Any:
    if not (CLIENTS / "node_modules/@grpc").is_dir():
        pytest.fail("there are no clients to try; run `make clients`")
    node = shutil.which("node")
    assert node is not None
    process = await asyncio.create_subprocess_exec(
        node,
        str(Path(__file__).with_name("node_client.mjs")),
        str(CLIENTS),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(PATIENCE_SECONDS):
        out, err = await process.communicate(json.dumps(order).encode())
    assert process.returncode == 0, err.decode()
    return json.loads(out)


async def test_a_client_that_asks_the_server_for_its_methods_can_call_them(
    new_server: NewServer,
) -> None:
    async with (
        listening(new_server()) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        services = await _services(channel)
        described = await _described(channel, "skillpouch.v1.Skillpouch")
        made = await _ask(channel, described, "CreateSession", {"session_id": "found"})
        call = {"session_id": "found", "tool": "demo.echo", "args_json": '{"text": "generic"}'}
        answer = await _ask(channel, described, "ExecuteTool", call)

    assert set(services) == {
        "skillpouch.v1.Skillpouch",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    assert len(described.methods) == 23
    assert made == {"session_id": "found"}
    assert json.loads(answer["result"]["structured_json"]) == {"said": "generic"}


async def _reflect(channel: Any, **asked: str) -> Any:
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(**asked)  # type: ignore[arg-type]
    async for answer in stub.ServerReflectionInfo(iter([request])):
        return answer
    raise AssertionError("no answer")


async def _services(channel: Any) -> list[str]:
    answer = await _reflect(channel, list_services="")
    return [service.name for service in answer.list_services_response.service]


async def _described(channel: Any, service: str) -> Any:
    answer = await _reflect(channel, file_containing_symbol=service)
    pool = DescriptorPool()
    for data in answer.file_descriptor_response.file_descriptor_proto:
        pool.Add(FileDescriptorProto.FromString(data))
    return pool.FindServiceByName(service)


async def _ask(channel: Any, described: Any, method: str, fields: Any) -> Any:
    found = described.methods_by_name[method]
    request = ParseDict(fields, GetMessageClass(found.input_type)())
    send = channel.unary_unary(
        f"/{described.full_name}/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=GetMessageClass(found.output_type).FromString,
    )
    return MessageToDict(await send(request), preserving_proto_field_name=True)
