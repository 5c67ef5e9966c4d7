"""Who is let in: tokens, certificates, and where a server agrees to listen at all."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from skillpouch.servers.addresses import Address
from skillpouch.servers.faults import AddressError, CertificateError
from skillpouch.servers.grpc import GrpcSettings
from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.servers.grpc.v1.skillpouch_pb2_grpc import SkillpouchStub
from tests.servers.grpc.conftest import NewServer
from tests.servers.grpc.serving import call, listening, refusal

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-enough-length"


@pytest.mark.promise("grpc-1")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.com"])
async def test_a_server_does_not_listen_to_a_network_without_asking_who_comes(
    new_server: NewServer, host: str
) -> None:
    settings = GrpcSettings(address=Address(host=host, port=0))

    with pytest.raises(AddressError, match="without authentication"):
        await new_server().serve(settings)


@pytest.mark.promise("grpc-1")
async def test_counts_are_not_shown_to_a_network(new_server: NewServer) -> None:
    settings = GrpcSettings(metrics=Address(host="0.0.0.0", port=0))

    with pytest.raises(AddressError, match="without authentication"):
        async with listening(new_server(), settings):
            pytest.fail("it listens")


async def test_two_servers_do_not_share_a_port(new_server: NewServer) -> None:
    async with listening(new_server()) as address:
        port = int(address.rpartition(":")[2])
        taken = GrpcSettings(address=Address(host="127.0.0.1", port=port))
        with pytest.raises(AddressError, match="taken"):
            await new_server().serve(taken)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    path.write_text(f"# ours\n{TOKEN}\n")
    return path


@pytest.mark.promise("grpc-2")
@pytest.mark.parametrize(
    "said",
    [
        (),
        (("authorization", TOKEN),),
        (("authorization", f"Basic {TOKEN}"),),
        (("authorization", "Bearer wrong-token-of-enough-length"),),
        (("authorization", f"Bearer {TOKEN}x"),),
        (("authorization", f"Bearer {TOKEN}"), ("authorization", "Bearer other-token-of-length")),
    ],
)
async def test_without_the_token_nothing_is_answered(
    new_server: NewServer, token_file: Path, said: tuple[tuple[str, str], ...]
) -> None:
    settings = GrpcSettings(token_file=token_file)
    async with (
        listening(new_server(), settings) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        stub = SkillpouchStub(channel)
        listed = await refusal(stub.ListTools(pb.ListToolsRequest(), metadata=said))
        stream = stub.StreamTool(pb.StreamToolRequest(tool="demo.steps"), metadata=said)
        streamed = await refusal(stream.read())

    assert (listed, streamed) == ((grpc.StatusCode.UNAUTHENTICATED, "unauthenticated"),) * 2


@pytest.mark.promise("grpc-2")
async def test_with_the_token_calls_are_answered_until_it_is_taken_out_of_the_file(
    new_server: NewServer, token_file: Path
) -> None:
    said = (("authorization", f"Bearer {TOKEN}"),)
    settings = GrpcSettings(token_file=token_file)
    async with (
        listening(new_server(), settings) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        stub = SkillpouchStub(channel)
        before = await stub.ListTools(pb.ListToolsRequest(), metadata=said)
        token_file.write_text("another-token-of-enough-length\n")
        after = await refusal(stub.ListTools(pb.ListToolsRequest(), metadata=said))

    assert len(before.tools) == 5
    assert after == (grpc.StatusCode.UNAUTHENTICATED, "unauthenticated")


async def test_whether_the_server_is_there_is_told_without_a_token(
    new_server: NewServer, token_file: Path
) -> None:
    settings = GrpcSettings(token_file=token_file)
    async with (
        listening(new_server(), settings) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        health: Any = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service="skillpouch.v1.Skillpouch")
        answer = await health.Check(request)

    assert answer.status == health_pb2.HealthCheckResponse.SERVING


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """A CA, and a certificate of it for the server and for a client, as a user would make them."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificates")
    folder = tmp_path / "certificates"
    folder.mkdir()
    _openssl(
        folder, "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.pem -subj /CN=ca"
    )
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    for name in ("server", "client", "other"):
        new = f"req -newkey rsa:2048 -nodes -keyout {name}.key -out {name}.csr -subj /CN={name}"
        _openssl(folder, new)
        sign = f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2"
        _openssl(folder, f"{sign} -extfile names -out {name}.pem")
    return folder


def _openssl(folder: Path, words: str) -> None:
    subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)


@pytest.mark.promise("grpc-3")
async def test_with_a_client_ca_only_its_certificates_are_let_in(
    new_server: NewServer, certificates: Path
) -> None:
    settings = GrpcSettings(
        tls_cert=certificates / "server.pem",
        tls_key=certificates / "server.key",
        tls_client_ca=certificates / "ca.pem",
    )
    root = (certificates / "ca.pem").read_bytes()
    key, own = ((certificates / f"client.{end}").read_bytes() for end in ("key", "pem"))
    async with listening(new_server(), settings) as address:
        known = grpc.ssl_channel_credentials(root, key, own)
        async with grpc.aio.secure_channel(address, known) as channel:
            result = await call(SkillpouchStub(channel), "demo.echo", {"text": "hello"})
        strangers = [grpc.ssl_channel_credentials(root), None]
        codes = [await _code(address, credentials) for credentials in strangers]

    assert (result.outcome, codes) == ("ok", [grpc.StatusCode.UNAVAILABLE] * 2)


@pytest.mark.promise("grpc-6")
async def test_a_certificate_does_not_reach_the_sessions_of_another(
    new_server: NewServer, certificates: Path
) -> None:
    settings = GrpcSettings(
        tls_cert=certificates / "server.pem",
        tls_key=certificates / "server.key",
        tls_client_ca=certificates / "ca.pem",
    )

    def files(name: str) -> grpc.ChannelCredentials:
        parts = ("ca.pem", f"{name}.key", f"{name}.pem")
        return grpc.ssl_channel_credentials(*((certificates / part).read_bytes() for part in parts))

    async with (
        listening(new_server(), settings) as address,
        grpc.aio.secure_channel(address, files("client")) as one,
        grpc.aio.secure_channel(address, files("other")) as two,
    ):
        made = await SkillpouchStub(one).CreateSession(pb.CreateSessionRequest())
        request = pb.ListToolsRequest(session_id=made.session_id)
        own = await SkillpouchStub(one).ListTools(request)
        others = await refusal(SkillpouchStub(two).ListTools(request))

    assert (len(own.tools), others) == (5, (grpc.StatusCode.NOT_FOUND, "unknown_session"))


async def _code(address: str, credentials: grpc.ChannelCredentials | None) -> grpc.StatusCode:
    if credentials is None:
        channel = grpc.aio.insecure_channel(address)
    else:
        channel = grpc.aio.secure_channel(address, credentials)
    async with channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await SkillpouchStub(channel).ListTools(pb.ListToolsRequest())
    return caught.value.code()


async def test_certificates_that_cannot_be_used_are_said_at_the_start(
    new_server: NewServer, certificates: Path
) -> None:
    wrong = GrpcSettings(tls_cert=certificates / "server.pem", tls_key=certificates / "client.key")
    alone = GrpcSettings(tls_client_ca=certificates / "ca.pem")

    for settings in (wrong, alone):
        with pytest.raises(CertificateError):
            await new_server().serve(settings)
