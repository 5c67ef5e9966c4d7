"""What the tests of declared tools share: a declaration in one line, and a network that is noted.

Names are looked up by a stub, and whatever would be dialled is noted: nothing but loopback is.
"""

import json
import socket
from typing import Any

import httpcore2
import pytest


@pytest.fixture(autouse=True)
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every name leads to a public address; nothing but loopback is really dialled."""
    found: list[str] = []
    really = httpcore2.AnyIOBackend.connect_tcp

    async def connect(self: Any, host: str, *more: Any, **options: Any) -> Any:
        found.append(host)
        if host != "127.0.0.1":
            raise httpcore2.ConnectError("nothing outside is dialled in a test")
        return await really(self, host, *more, **options)

    outside = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("93.184.216.34", 0))]
    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", connect)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: outside)
    return found


def front(backend: dict[str, Any], *names: str) -> str:
    """Return the frontmatter of one tool, `x`, with these parameters of any type."""
    schema = {"type": "object", "properties": {name: {} for name in names}}
    entry = {"name": "x", "description": "d", "backend": backend, "parameters": schema}
    return f"tools: {json.dumps([entry])}\n"


def http(url: str, **more: Any) -> dict[str, Any]:
    return {"type": "http", "method": "GET", "url": url, "retries": 0, **more}
