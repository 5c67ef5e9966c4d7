"""A program served by https on loopback, with a certificate that only these tests believe in."""

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Download:
    """What is served at `url`, and how often it was asked for."""

    port: int = 0
    body: bytes = b'#!/bin/sh\nprintf "[%s]" "$@"\n'
    asked: list[str] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"https://{self.host}/tool"

    @property
    def digest(self) -> str:
        return sha256(self.body).hexdigest()


class _Serving(BaseHTTPRequestHandler):
    told: Download

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        self.told.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.told.body)))
        self.end_headers()
        self.wfile.write(self.told.body)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed, and a certificate is needed")
    folder = tmp_path_factory.mktemp("certificate")
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1"
    alt = ["-addext", "subjectAltName=IP:127.0.0.1"]
    out = ["-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem"]
    subprocess.run([*words.split(), *alt, *out], check=True, capture_output=True)
    return folder


@pytest.fixture
def download(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Download]:
    monkeypatch.setenv("SSL_CERT_FILE", f"{certificate}/cert.pem")
    told = Download()
    listening = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Serving,), {"told": told}))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{certificate}/cert.pem", f"{certificate}/key.pem")
    listening.socket = context.wrap_socket(listening.socket, server_side=True)
    told.port = listening.server_address[1]
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield told
    listening.shutdown()
    thread.join()
    listening.server_close()
