"""An address on this machine that takes what a webhook is sent, and answers as told."""

import hmac
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

SECRET = "correct horse battery staple"
Reply = Callable[[dict[str, str], bytes], tuple[int, dict[str, str], bytes]]


@contextmanager
def receiver(reply: Reply, port: int = 0) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Serve on this machine; yield the address, and what arrives."""
    seen: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            seen.append({"headers": headers, "body": body})
            status, more, data = reply(headers, body)
            self.send_response(status)
            for name, value in {**more, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/ask", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def arrived(_: dict[str, str], __: bytes) -> tuple[int, dict[str, str], bytes]:
    return 204, {}, b""


def answering(
    answer: object, *, sign: Callable[[dict[str, str], bytes], str] | None = None
) -> Reply:
    def reply(headers: dict[str, str], _: bytes) -> tuple[int, dict[str, str], bytes]:
        data = json.dumps(answer).encode()
        made = (sign or signed_as_documented)(headers, data)
        return 200, {"Skillpouch-Signature": made}, data

    return reply


def signed_as_documented(headers: dict[str, str], data: bytes) -> str:
    first = headers["skillpouch-delivery"].encode() + b"."
    return "v1=" + hmac.new(SECRET.encode(), first + data, sha256).hexdigest()
