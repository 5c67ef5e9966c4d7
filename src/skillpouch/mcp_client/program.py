"""A server as a confined program: one message a line over its standard streams."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from shutil import which

import anyio
from anyio.streams.memory import (
    MemoryObjectReceiveStream,
    MemoryObjectSendStream,
)
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter
from pydantic import ValidationError

from skillpouch.backends.executables import visible_for
from skillpouch.environment import base_environment, search_path, variable
from skillpouch.errors import SkillpouchError
from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.conversation import Conversation
from skillpouch.execution.shared import run_command
from skillpouch.limits import Limits
from skillpouch.mcp_client.errors import McpServerError, VariablesUnsetError
from skillpouch.policy.mcp_entries import McpEntry, McpProgram
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
            raise BufferError("it writes lines without an end")

    def _take(self, line: bytes) -> None:
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except (ValidationError, ValueError):
            _log.debug("%s wrote what is no message", self._name)
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
        limits=_LIMITS,
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
