"""Starts servers for tests: in this process over HTTP, and as a program on standard streams."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from skillpouch.servers.addresses import Address
from skillpouch.servers.lifecycle import Stop
from skillpouch.servers.mcp import HttpSettings, McpServer

Era = Literal["legacy", "auto"]
ERAS: tuple[Era, ...] = ("legacy", "auto")
PATIENCE_SECONDS = 100.0
_ANY_PORT = Address(host="127.0.0.1", port=0)


@asynccontextmanager
async def listening(server: McpServer, settings: HttpSettings | None = None) -> AsyncIterator[str]:
    """Serve over HTTP while inside; yields the URL. Leaving waits until the server has ended."""
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    stop = Stop()
    settings = replace(settings or HttpSettings(), address=_ANY_PORT)
    serving = asyncio.create_task(server.serve_http(settings, stop=stop, ready=url.set_result))
    waited: list[asyncio.Future[Any]] = [url, serving]
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        await serving
    try:
        yield url.result()
    finally:
        stop.ask()
        await asyncio.wait_for(serving, PATIENCE_SECONDS)


def arguments_for(*roots: Path, workspace: Path, more: tuple[str, ...] = ()) -> list[str]:
    """Return the words after `python` that serve some roots on standard streams."""
    words = ["-m", "skillpouch", "serve", "mcp", "--workspace", str(workspace), *more]
    return [*words, *(word for root in roots for word in ("--root", str(root)))]


def program(*words: str) -> StdioServerParameters:
    """Return a server as a program, with the surroundings that the tests were given."""
    return StdioServerParameters(command=sys.executable, args=list(words), env=dict(os.environ))


def over_stdio(*words: str, era: Era, **options: Any) -> Client:
    """Return a client that starts its server itself."""
    return Client(stdio_client(program(*words)), mode=era, **options)
