import json
import shutil
import ssl
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Policy, SkillManager
from skillpouch.policy import Rule
from skillpouch.results import ToolResult
from tests.conftest import WriteSkill
from tests.net.http.servers import Answer, Server, reply

# The servers of these tests are on loopback, which nobody is trusted with for declaring it.
LOCAL = Policy(mode="trusting", rules=[Rule(verdict="allow", needs=["host"], path="/")])
Serve = Callable[..., Server]
MakeManager = Callable[..., SkillManager]
Call = Callable[..., ToolResult]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Start a server that gives one reply to everything, or what a function writes."""
    with ExitStack() as stack:

        def start(answer: Answer | bytes = b"", tls: ssl.SSLContext | None = None) -> Server:
            data = answer if isinstance(answer, bytes) else b""
            always: Answer = answer if callable(answer) else lambda _, write: write(data or reply())
            return stack.enter_context(Server(always, tls))

        yield start


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def manager_of(write_skill: WriteSkill, workspace: Path) -> MakeManager:
    """A manager of one skill, `demo`, whose one tool, `ask`, has this backend."""

    def make(
        backend: dict[str, Any], properties: Any = None, required: Any = (), **options: Any
    ) -> SkillManager:
        schema = {"type": "object", "properties": properties or {}, "required": list(required)}
        entry = {
            "name": "ask",
            "description": "Ask.",
            "backend": {"type": "http", "method": "GET"} | backend,
            "parameters": schema,
        }
        # JSON is YAML, and nothing in it needs another spelling.
        front = f"name: demo\ndescription: Does demo.\ntools: {json.dumps([entry])}\n"
        root = write_skill(front=front).parent
        options = {"policy": LOCAL} | options
        return SkillManager(root, workspace=workspace, cache=False, **options)

    return make


@pytest.fixture
def call(manager_of: MakeManager) -> Call:
    def run(backend: dict[str, Any], arguments: Any = None, **options: Any) -> ToolResult:
        given = arguments or {}
        properties = options.pop("properties", None) or {name: {} for name in given}
        timeout = options.pop("timeout", None)
        return manager_of(backend, properties, **options).call("demo.ask", given, timeout=timeout)

    return run


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A throw-away certificate for 127.0.0.1 and localhost, with its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl makes the throw-away certificate, and is not installed")
    folder = tmp_path_factory.mktemp("certificate")
    words = [
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
        *("-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"),
        *("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")),
    ]
    subprocess.run([openssl, *words], check=True, capture_output=True)
    return folder


@pytest.fixture
def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    return context
