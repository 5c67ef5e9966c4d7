"""A connection to one MCP server, whose program is started confined."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import Any, cast

import anyio
import httpx2
from anyio.streams.memory import (
    MemoryObjectReceiveStream,
    MemoryObjectSendStream,
)
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, CallToolResult, Tool, jsonrpc_message_adapter
from pydantic import ValidationError

from skillpouch.backends.binary import visible_for
from skillpouch.environment import base_environment, search_path, variable
from skillpouch.errors import SkillpouchError
from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Confinement, Profile
from skillpouch.execution.engine import run_command
from skillpouch.execution.streams import Conversation
from skillpouch.limits import Limits, read_size
from skillpouch.mcp_client.configuration import McpAnswerError, McpServerError, VariablesUnsetError
from skillpouch.mcp_client.tasks import TasksOfServers, progress_here
from skillpouch.policy.project import McpAddress, McpEntry, McpProgram, filled, variables_in
from skillpouch.text import clean

_log = logging.getLogger(__name__)

_FOREVER_SECONDS = 10 * 365 * 86_400.0
_MOST_LINE_BYTES = 16 * 1024 * 1024
_MOST_WAITING = 10_000
_LIMITS = Limits(timeout_seconds=_FOREVER_SECONDS)

Streams = tuple[
    MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]
]


@asynccontextmanager
async def program_streams(
    entry: McpEntry, program: McpProgram, workspace: Path, words: deque[str]
) -> AsyncIterator[Streams]:
    """Start a server, confined, and talk with it while inside; leaving ends all it started.

    `words` get what it writes to standard error, for those who wonder why it ended.
    """
    conversation = Conversation()
    command, confinement = _plan(entry, program, workspace, conversation)
    heard, read = anyio.create_memory_object_stream[SessionMessage | Exception](_MOST_WAITING)
    write, said = anyio.create_memory_object_stream[SessionMessage](0)
    ear = _Ear(entry.name, heard, words)
    running = asyncio.create_task(_run(entry, run_command(command, confinement, ear.hear), heard))
    saying = asyncio.create_task(_say(said, conversation))
    try:
        yield read, write
    finally:
        for task in (saying, running):
            task.cancel()
        await asyncio.gather(saying, running, return_exceptions=True)
        for stream in (heard, read, write, said):
            stream.close()


async def _run(
    entry: McpEntry, running: object, heard: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    try:
        ended = await running  # type: ignore[misc]  # a coroutine
        _log.warning("the MCP server %r ended with %s", entry.name, ended.exit_code)
    except (SkillpouchError, OSError, BufferError) as error:
        _log.warning("the MCP server %r: %s", entry.name, error)
    finally:
        heard.close()


async def _say(said: MemoryObjectReceiveStream[SessionMessage], conversation: Conversation) -> None:
    async with said:
        async for each in said:
            text = each.message.model_dump_json(by_alias=True, exclude_unset=True)
            conversation.say(text.encode("utf-8", "replace") + b"\n")


class _Ear:
    """Takes output as it comes; what a server writes to standard error goes to the log."""

    def __init__(
        self,
        name: str,
        heard: MemoryObjectSendStream[SessionMessage | Exception],
        words: deque[str],
    ) -> None:
        self._name = name
        self._heard = heard
        self._words = words
        self._pending = bytearray()

    def hear(self, stream: str, data: bytes) -> None:
        if stream == "stderr":
            text = clean(data.decode("utf-8", "replace")).strip()
            self._words.extend(text.splitlines())
            _log.debug("%s: %s", self._name, text)
            return
        # Only what is new is looked through: a long line comes in hundreds of pieces.
        *ends, rest = data.split(b"\n")
        for end in ends:
            line = bytes(self._pending + end)
            self._pending.clear()
            if line.strip():
                self._take(line)
        self._pending += rest
        if len(self._pending) > _MOST_LINE_BYTES:
            raise BufferError("it writes a line that is too long")

    def _take(self, line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except (ValidationError, ValueError):
            _log.debug("%s wrote a line that is not a message", self._name)
            return
        try:
            self._heard.send_nowait(SessionMessage(message))
        except anyio.WouldBlock:
            raise BufferError("it writes faster than anybody reads") from None
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            return


def _plan(
    entry: McpEntry, program: McpProgram, workspace: Path, conversation: Conversation
) -> tuple[Command, Confinement]:
    file = _executable(entry, program.command[0])
    values = {name: variable(name) for name in program.env}
    if unset := [name for name, value in values.items() if not value]:
        raise VariablesUnsetError(entry.name, unset)
    command = Command(
        argv=(str(file), *program.command[1:]),
        env={**base_environment(), **{name: value or "" for name, value in values.items()}},
        cwd=workspace,
        limits=replace(_LIMITS, memory_bytes=read_size(program.memory) or _LIMITS.memory_bytes),
        conversation=conversation,
    )
    confinement = Confinement(
        workspace=workspace,
        interpreters=(*visible_for(file), *_environment(file), *map(Path, program.run)),
        readable=tuple(map(Path, program.read)),
        writable=tuple(map(Path, program.write)),
        followed=tuple(map(Path, (*program.read, *program.write))),
        network="hosts" if program.hosts and not program.unconfined else "none",
        hosts=() if program.unconfined else program.hosts,
        skill_name=entry.skill if program.hosts and not program.unconfined else "",
        profiles=cast("tuple[Profile, ...]", () if program.unconfined else program.profiles),
        sandbox="off" if program.unconfined else "on",
    )
    return command, confinement


def _executable(entry: McpEntry, word: str) -> Path:
    found = which(os.path.expanduser(word), path=search_path())  # noqa: PTH111 - text in, text out
    if found is None:
        raise McpServerError(entry.name, f"there is no program {word!r}")
    return Path(found).absolute()


def _environment(file: Path) -> tuple[Path, ...]:
    """Return the virtual environment that a program lies in, and the Python it was made from."""
    home = file.parent.parent
    try:
        lines = (home / "pyvenv.cfg").read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        return ()
    made_from = [line.partition("=")[2].strip() for line in lines if line.startswith("home")]
    return (home, *(Path(folder).parent for folder in made_from if Path(folder).is_absolute()))


_START_SECONDS = 60.0
_MOST_PAGES = 100
_MOST_WORDS = 3  # lines


class McpConnection:
    """Belongs to Skillpouch's own loop. A call is not repeated when its connection broke."""

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
            raise McpServerError(self._entry.name, "it does not list its tools") from None

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
        """Call a tool of the server; one that it goes on with as a task is waited for."""
        client = await self._connected()
        progress_here.set(progress)  # for this call: it has a task of its own
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
            async with (
                self._transport() as streams,
                Client(_Ready(streams), mode="auto", extensions=[TasksOfServers()]) as client,
            ):
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
    """Raise McpAnswerError for an answer that the protocol, or a schema, does not allow."""
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
