"""Real servers on loopback that answer with whatever bytes a test wants."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True)
class Seen:
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes = b""

    def header(self, name: str) -> list[str]:
        return [value for key, value in self.headers if key.lower() == name]


class Writer:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.gone = False

    def __call__(self, data: bytes) -> None:
        try:
            self._connection.sendall(data)
        except OSError:
            self.gone = True


Answer = Callable[[Seen, Writer], None]


def reply(
    body: bytes | str = b"", status: str = "200 OK", kind: str = "text/plain", **headers: str
) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(data)}", f"Content-Type: {kind}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


@dataclass
class Server:
    """Answers each request in a thread of its connection; `seen` is what it was asked."""

    answer: Answer
    tls: ssl.SSLContext | None = None
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._thread.join(5)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host}"

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection: socket.socket) -> None:
        with suppress(OSError):
            if self.tls is not None:
                connection = self.tls.wrap_socket(connection, server_side=True)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open.append(connection)
            with connection, connection.makefile("rb") as file:
                while (seen := _read(file)) is not None:  # type: ignore[arg-type]
                    self.seen.append(seen)
                    writer = Writer(connection)
                    self.answer(seen, writer)
                    if writer.gone or self.stopping.is_set():
                        return


def _read(file: socket.SocketIO) -> Seen | None:
    line = file.readline()
    if not line:
        return None
    method, target, _ = line.decode().split(" ", 2)
    headers: list[tuple[str, str]] = []
    while (line := file.readline().strip()) != b"":
        name, _, value = line.decode("utf-8", "replace").partition(":")
        headers.append((name, value.strip()))
    size = next((int(value) for name, value in headers if name.lower() == "content-length"), 0)
    return Seen(method, target, headers, file.read(size) or b"")
