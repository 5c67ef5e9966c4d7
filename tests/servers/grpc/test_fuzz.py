"""Any bytes and any message: an answer or an error, never a crash, a trace or a path of ours."""

import asyncio
import random
from contextlib import suppress
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skillpouch
from skillpouch.servers.grpc.messages import arguments_of
from skillpouch.servers.grpc.statuses import MessageError
from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from tests.servers.grpc.conftest import NewServer
from tests.servers.grpc.serving import call, connected, listening

pytestmark = pytest.mark.slow

METHODS = pb.DESCRIPTOR.services_by_name["Skillpouch"].methods_by_name
EXPECTED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,  # some of the bytes ask for just that, by the id that others chose
}
SOURCE = str(skillpouch.__path__[0])
WORDS = ["", "s", "demo.echo", "../..", "\0", "\ufffd" * 9, "x" * 5_000, "{", '{"text": 1}', "🎒"]


def some_bytes(chance: random.Random) -> bytes:
    """Return what looks like fields, more often than noise would."""
    pieces = []
    for _ in range(chance.randrange(6)):
        data = chance.choice(WORDS).encode() or chance.randbytes(chance.randrange(40))
        tag = chance.randrange(1, 9) << 3 | chance.choice((0, 1, 2, 2, 2, 5))
        pieces.append(bytes([tag, min(len(data), 127)]) + data[:127])
    return b"".join(pieces)


async def send(channel: Any, method: str, data: bytes) -> tuple[Any, str]:
    """Send bytes as a request; return the status, and all that an error told."""
    path = f"/skillpouch.v1.Skillpouch/{method}"
    try:
        if METHODS[method].server_streaming:
            async for _ in channel.unary_stream(path)(data, timeout=60):
                pass
        else:
            await channel.unary_unary(path)(data, timeout=60)
    except grpc.aio.AioRpcError as error:
        return error.code(), f"{error.details()} {error.trailing_metadata()}"
    return grpc.StatusCode.OK, ""


@pytest.mark.promise("grpc-5")
@pytest.mark.timeout(300)
async def test_any_bytes_get_an_answer_or_an_error_and_the_server_lives(
    new_server: NewServer,
) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    sent = [(chance.choice(list(METHODS)), some_bytes(chance)) for _ in range(400)]
    async with listening(new_server()) as address, grpc.aio.insecure_channel(address) as channel:
        answers = await asyncio.gather(*(send(channel, *each) for each in sent))

    for (method, data), (status, told) in zip(sent, answers, strict=True):
        assert status in EXPECTED, (seed, method, data, status, told)
        assert "Traceback" not in told
        assert SOURCE not in told


async def test_noise_instead_of_http_harms_nobody(new_server: NewServer) -> None:
    async with listening(new_server()) as address:
        host, _, port = address.rpartition(":")
        for noise in (b"", b"GET / HTTP/1.1\r\n\r\n", random.randbytes(10_000)):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(noise)
            writer.close()
        async with grpc.aio.insecure_channel(address) as channel:
            status, _ = await send(channel, "ListTools", b"")

    assert status is grpc.StatusCode.OK


@pytest.mark.promise("grpc-5")
async def test_an_error_of_ours_is_told_to_nobody(
    new_server: NewServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = new_server()

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError(f"secret in {SOURCE}")

    monkeypatch.setattr(server.sessions, "create_session", broken)
    async with connected(server) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.CreateSession(pb.CreateSessionRequest())
        result = await call(stub, "demo.echo", {"text": "still here"})

    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert caught.value.details() == "something went wrong; the log of the server says what"
    assert SOURCE not in str(caught.value.trailing_metadata())
    assert result.outcome == "ok"


@settings(deadline=None)
@given(st.text())
def test_any_text_is_a_value_or_a_wrong_message(text: str) -> None:
    with suppress(MessageError):
        arguments_of(text)
