"""Starts gRPC servers for tests, in this process, and connects to them."""

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from skillpouch.servers.addresses import Address
from skillpouch.servers.grpc import GrpcServer, GrpcSettings
from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.servers.grpc.v1.skillpouch_pb2_grpc import SkillpouchStub
from skillpouch.servers.lifecycle import Stop
from tests.servers.processes import processes_with

PATIENCE_SECONDS = 100.0
_ANY_PORT = Address(host="127.0.0.1", port=0)


@asynccontextmanager
async def listening(
    server: GrpcServer, settings: GrpcSettings | None = None, *, stop: Stop | None = None
) -> AsyncIterator[str]:
    """Serve while inside; yields the address. Leaving waits until the server has ended."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = stop or Stop()
    settings = replace(settings or GrpcSettings(), address=_ANY_PORT)
    serving = asyncio.create_task(server.serve(settings, stop=stop, ready=address.set_result))
    waited: list[asyncio.Future[Any]] = [address, serving]
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        await serving
    try:
        yield address.result()
    finally:
        stop.ask()
        await asyncio.wait_for(serving, PATIENCE_SECONDS)


@asynccontextmanager
async def connected(server: GrpcServer) -> AsyncIterator[Any]:
    """Serve while inside, and yield a client."""
    async with listening(server) as address, grpc.aio.insecure_channel(address) as channel:
        yield SkillpouchStub(channel)


async def call(stub: Any, tool: str, arguments: Any = None, **fields: Any) -> pb.ToolResult:
    """Execute a tool and return its result."""
    request = pb.ExecuteToolRequest(tool=tool, args_json=json.dumps(arguments or {}), **fields)
    result: pb.ToolResult = (await stub.ExecuteTool(request)).result
    return result


async def refusal(answer: Any) -> tuple[grpc.StatusCode, str]:
    """Wait for an error, and return its status and the stable code in its details."""
    try:
        await answer
    except grpc.aio.AioRpcError as error:
        return error.code(), await _reason(error)
    raise AssertionError("it was answered")


async def _reason(error: grpc.aio.AioRpcError) -> str:
    status = rich_status(error)
    info = ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (status.message, info.domain) == (error.details(), "skillpouch")
    return str(info.reason)


def rich_status(error: grpc.aio.AioRpcError) -> Any:
    """Return google.rpc.Status as grpcio-status finds it."""
    found = dict(error.trailing_metadata())["grpc-status-details-bin"]
    assert isinstance(found, bytes)
    return Status.FromString(found)


async def until(fact: Callable[[], object]) -> None:
    """Wait for something to be so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not fact():
            await asyncio.sleep(0.02)


def running_in(workspace: Path) -> list[int]:
    """Return what slow tools of a workspace have started; each starts a sleep of known length."""
    word = str(10**6 + zlib.crc32(str(workspace).encode()))
    return processes_with(f"sleep\0{word}\0".encode())
