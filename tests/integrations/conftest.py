"""A skill with a tool of each kind of answer, and a model provider on this machine."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager

WriteSkill = Callable[..., Path]

PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 24
ADD = '"""Add two numbers."""\n\n\ndef main(a: int, b: int = 1) -> int:\n    return a + b\n'
FAIL = '#!/bin/bash\n# Fail\necho "no such page" >&2\nexit 4\n'
ECHO = '"""Echo."""\nimport json, sys\n\nprint(json.dumps(json.load(sys.stdin)))\n'


@pytest.fixture
def manager(write_skill: WriteSkill, tmp_path: Path) -> SkillManager:
    files = {"scripts/add.py": ADD, "scripts/fail.sh": FAIL, "scripts/echo.py": ECHO}
    root = write_skill("demo", files=files).parent
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "dot.png").write_bytes(PIXEL)
    return SkillManager(root, workspace=tmp_path / "work", builtins=True)


class Provider:
    """Answers requests with what it was told to, in order; remembers what it was sent."""

    def __init__(self) -> None:
        self.replies: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["Content-Length"])
                provider.requests.append(json.loads(self.rfile.read(size)))
                body = json.dumps(provider.replies[len(provider.requests) - 1]).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def provider() -> Iterator[Provider]:
    running = Provider()
    yield running
    running.close()
