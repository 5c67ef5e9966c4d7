import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from skillpouch.calls import Vouch
from skillpouch.provision.programs.fetching import FetchLimits, WantedFile, wanted_for, web_opener
from skillpouch.provision.programs.programs import DownloadTerms


@dataclass
class Server:
    """A server on loopback that answers as it is told, and keeps what it was asked."""

    port: int = 0
    body: bytes = b"#!/bin/sh\necho fetched\n"
    etag: str = '"one"'
    ranges: bool = True
    cut_at: list[int] = field(default_factory=list)  # bytes after which answers break off
    headers: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    status: int = 200
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    gate: threading.Event | None = None
    held_after_bytes: bool = False  # the gate is behind the bytes, not before them

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/tool"

    @property
    def digest(self) -> str:
        return sha256(self.body).hexdigest()

    def wanted(self, digest: str | None = None) -> WantedFile:
        return wanted_for(self.url, digest, "linux-x86_64", plain_http=True)


class Handler(BaseHTTPRequestHandler):
    told: Server

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.told.asked.append((self.path, asked))
        if self.path in self.told.redirects:
            self.send_response(302)
            self.send_header("Location", self.told.redirects[self.path])
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        start = self._start(asked)
        if start is not None and start >= len(self.told.body):
            self._begin(416, 0, {})
            return
        rest = self.told.body[start or 0 :]
        more = {} if start is None else {"Content-Range": self._range(start)}
        self._begin(self.told.status if start is None else 206, len(rest), more)
        if self.told.gate is not None and not self.told.held_after_bytes:
            self.told.gate.wait(60)
        cut = self.told.cut_at.pop(0) if self.told.cut_at else len(rest)
        self.wfile.write(rest[:cut])
        if self.told.gate is not None and self.told.held_after_bytes:
            self.told.gate.wait(60)
        self.close_connection = True

    def _start(self, asked: str | None) -> int | None:
        if asked is None or not self.told.ranges:
            return None
        if self.headers.get("If-Range", self.told.etag) != self.told.etag:
            return None
        return int(asked.removeprefix("bytes=").removesuffix("-"))

    def _range(self, start: int) -> str:
        return f"bytes {start}-{len(self.told.body) - 1}/{len(self.told.body)}"

    def _begin(self, status: int, length: int, more: dict[str, str]) -> None:
        self.send_response(status)
        every = {"Content-Length": str(length), "ETag": self.told.etag, **more, **self.told.headers}
        for name, value in every.items():
            self.send_header(name, value)
        self.end_headers()


@pytest.fixture
def server() -> Iterator[Server]:
    told = Server()
    listening = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"told": told}))
    told.port = listening.server_address[1]
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield told
    listening.shutdown()
    thread.join()
    listening.server_close()


MakeTerms = Callable[..., DownloadTerms]


@pytest.fixture
def terms_for(server: Server) -> MakeTerms:
    def make(
        *hosts: str,
        vouch: Vouch | None = None,
        lines: list[str] | None = None,
        skill: str = "demo",
        **limits: Any,
    ) -> DownloadTerms:
        granted = hosts or (server.host,)
        return DownloadTerms(
            skill=skill,
            opener=web_opener(skill, granted),
            vouch=vouch,
            on_progress=None if lines is None else lines.append,
            limits=FetchLimits(**limits),
        )

    return make
