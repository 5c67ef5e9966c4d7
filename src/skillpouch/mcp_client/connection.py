"""One server that is connected when it is needed, and again when it was lost."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, CallToolResult, Tool
from pydantic import ValidationError

from skillpouch.environment import variable
from skillpouch.errors import SkillpouchError
from skillpouch.mcp_client.errors import McpAnswerError, McpServerError, VariablesUnsetError
from skillpouch.mcp_client.program import program_streams
from skillpouch.policy.mcp_entries import McpAddress, McpEntry, McpProgram, filled, variables_in

_START_SECONDS = 60.0
_MOST_PAGES = 100
_MOST_WORDS = 3  # lines


class Connection:
    """Belongs to Skillpouch's own loop. A call that the server was lost under is not repeated."""

    def __init__(self, entry: McpEntry, workspace: Path) -> None:
        self._entry = entry
        self._workspace = workspace
        self._turn = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._closing = asyncio.Event()
        self._words: deque[str] = deque(maxlen=_MOST_WORDS)

    async def tools(self) -> list[Tool]:
        """Ask for every tool of the server."""
        client = await self._connected()
        try:
            async with asyncio.timeout(_START_SECONDS):
                return await self._listed(client)
        except TimeoutError:
            raise McpServerError(self._entry.name, "it does not tell its tools") from None

    async def _listed(self, client: Client) -> list[Tool]:
        found: list[Tool] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            with _understood(self._entry):
                page = await client.list_tools(cursor=cursor)
            found += page.tools
            cursor = page.next_cursor
            if cursor is None:
                break
        return found

    async def call(self, name: str, arguments: dict[str, Any], progress: Any) -> CallToolResult:
        """Call a tool of the server."""
        client = await self._connected()
        try:
            with _understood(self._entry):
                return await client.call_tool(name, arguments, progress_callback=progress)
        except MCPError as error:
            if error.code == CONNECTION_CLOSED:
                self._client = None
            raise

    async def close(self) -> None:
        """End the connection, and a server that was started for it."""
        self._closing.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)
        self._client = None

    async def _connected(self) -> Client:
        async with self._turn:
            if self._client is not None and self._task is not None and not self._task.done():
                return self._client
            return await self._connect()

    async def _connect(self) -> Client:
        await self.close()
        self._closing = asyncio.Event()
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._serve(ready, self._closing))
        try:
            async with asyncio.timeout(_START_SECONDS):
                self._client = await asyncio.shield(ready)
        except TimeoutError:
            self._task.cancel()
            raise McpServerError(self._entry.name, "it does not answer") from None
        return self._client

    async def _serve(self, ready: "asyncio.Future[Client]", closing: asyncio.Event) -> None:
        """Hold the connection in one task: what opens it must be what closes it."""
        try:
            async with self._transport() as streams, Client(_Ready(streams), mode="auto") as client:
                ready.set_result(client)
                await closing.wait()
        except BaseException as error:
            if not ready.done():
                ready.set_exception(_said(self._entry, error, self._words))
            if not isinstance(error, Exception):
                raise

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        runs = self._entry.runs
        if isinstance(runs, McpProgram):
            async with program_streams(self._entry, runs, self._workspace, self._words) as streams:
                yield streams
            return
        async with (
            httpx2.AsyncClient(
                headers=_headers(self._entry, runs), timeout=_START_SECONDS, trust_env=False
            ) as http,
            streamable_http_client(runs.url, http_client=http) as streams,
        ):
            yield streams


class _Ready:
    """Streams that are open, as the client library wants them."""

    def __init__(self, streams: Any) -> None:
        self._streams = streams

    async def __aenter__(self) -> Any:
        return self._streams

    async def __aexit__(self, *_: object) -> None:
        return None


@contextmanager
def _understood(entry: McpEntry) -> Iterator[None]:
    """Say it of the server when its answer is not one that the protocol, or its schema, allows."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise McpAnswerError(entry.name, f"{place}: {first['msg']}") from None
    except RuntimeError as error:
        raise McpAnswerError(entry.name, f"{error!s:.400}") from None


def _headers(entry: McpEntry, runs: McpAddress) -> dict[str, str]:
    names = variables_in(runs.headers.values())
    values = {name: variable(name) or "" for name in names}
    if unset := [name for name, value in values.items() if not value]:
        raise VariablesUnsetError(entry.name, unset)
    return {name: filled(text, values) for name, text in runs.headers.items()}


def _said(entry: McpEntry, error: BaseException, words: Iterable[str]) -> SkillpouchError:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, SkillpouchError):
        return error
    if isinstance(error, anyio.ClosedResourceError | MCPError):
        last = "; ".join(words) or str(error)
        return McpServerError(entry.name, f"it ended before it was ready: {last}")
    return McpServerError(entry.name, f"{type(error).__name__}: {error}")
