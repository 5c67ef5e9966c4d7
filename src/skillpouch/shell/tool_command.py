"""Runs one command of a script that is a tool: reads its words, calls it, prints the result."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from skillpouch.arguments import check_arguments
from skillpouch.errors import (
    CallDeniedError,
    InvalidArgumentsError,
    SkillpouchError,
    UnknownToolError,
    nearest,
)
from skillpouch.results import ToolResult
from skillpouch.shell.call_log import CallLog
from skillpouch.shell.flags import FlagError, Flags, read_flags
from skillpouch.shell.inproc_engine import is_immediate
from skillpouch.shell.limits import ExecutionLimits
from skillpouch.shell.responses import time_note_in
from skillpouch.shell.status import byte_count
from skillpouch.shell.toolbox import Toolbox, ToolDef
from skillpouch.shell.usage import usage_line, usage_page
from skillpouch.shell.worker.protocol import CommandReply

if TYPE_CHECKING:
    from skillpouch.calls import OnStep

_FATAL = 128  # what a shell adds to the signal that ended a command


def printed(name: str, result: ToolResult) -> CommandReply:
    """Return output, errors and the exit code; text ends with a line end, as commands' does."""
    is_ok = result.outcome == "ok"
    stdout = result.data if is_ok else result.stdout
    is_silent = is_ok and not result.stderr and not result.notes
    stderr = "" if is_silent else _errors(name, result)
    if result.truncated or result.http:
        stderr += "".join(f"note: {name}: {note}\n" for note in _notes(result))
    return CommandReply(_whole(_line(stdout)), stderr and _whole(stderr), _exit_code(result))


def _notes(result: ToolResult) -> Iterator[str]:
    """Yield what a script should know about output that is not all there."""
    value = result.structured
    after = value.get("next_offset") if isinstance(value, dict) else None
    if result.truncated and after is not None:
        yield f"this is a part of it; go on with --offset {after}"
    elif result.truncated:
        yield "its output is too long, and a part of it is left out"
    elif result.http and result.saved and not result.stdout:
        yield f"its answer is not text; it is saved as {result.saved[0]}"


def _errors(name: str, result: ToolResult) -> str:
    notes = _line("\n".join(result.notes))
    if result.outcome == "ok":
        return f"{_line(result.stderr)}{notes}"
    if result.outcome == "timed_out":
        seconds = result.timeout_seconds
        why = f"timed out after {seconds:g} s" if seconds else "timed out"
        return f"{_line(result.stderr)}{name}: {why}\n{_line(time_note_in(result))}"
    first = "" if _is_own_text(result) else f"{name}: "
    said = result.stderr or _status(result)
    if said:
        return f"{_line(f'{first}{said}')}{notes}"
    return _line(f"{first}{result.content or result.code or result.outcome}")  # with its notes


def _status(result: ToolResult) -> str:
    """Return the first line of an answer of a web service: its body is printed already."""
    return result.content.partition("\n")[0] if result.http else ""


def _is_own_text(result: ToolResult) -> bool:
    """Tell whether a process wrote it: what it says is passed on as it is."""
    return bool(result.protections) and bool(result.stderr)


def _exit_code(result: ToolResult) -> int:
    if result.outcome == "timed_out":
        return 124
    if result.exit_code is not None:
        return result.exit_code & 255
    if result.signal:
        return _FATAL + result.signal
    return 0 if result.outcome == "ok" else 1


def _line(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"


def _whole(text: str) -> str:
    """Return text that is sure to be UTF-8; the engine refuses halves of characters."""
    is_plain = type(text) is str and text.isascii()
    return text if is_plain else str(text).encode("utf-8", "replace").decode()


INVALID, DENIED, NOT_FOUND, FAILED = 2, 126, 127, 1  # exit codes, as shells have them

_log = logging.getLogger(__name__)


class ToolCalls:
    """Makes the calls of one script. A dry run makes only those that read."""

    def __init__(
        self,
        toolbox: Toolbox,
        call_log: CallLog,
        limits: ExecutionLimits,
        *,
        dry_run: bool = False,
        on_step: "OnStep | None" = None,
    ) -> None:
        self._toolbox = toolbox
        self._call_log = call_log
        self._dry_run = dry_run
        self._on_step = on_step
        self._parallel = asyncio.Semaphore(limits.max_parallel)

    async def call(
        self, name: str, words: Sequence[str], stdin: str | None, *, starts: bool = False
    ) -> CommandReply:
        """Run a tool for a script; whatever happens is an answer that the script can use.

        What it only `starts` goes on as a job, and the answer is its id.
        """
        tools = self._toolbox.definitions
        definition = tools.get(name)
        if definition is None:
            return CommandReply("", _not_found(name, tools), NOT_FOUND)
        try:
            flags = read_flags(words, definition, stdin)
        except FlagError as error:
            seq = self._call_log.begin(name, definition.effects, {"<words>": list(words)})
            said = _said(name, str(error), getattr(error, "hint", ""))
            self._call_log.end(seq, "invalid", exit_code=INVALID, error=str(error))
            return CommandReply("", said, INVALID)
        if flags.help:
            return CommandReply(_line(usage_page(definition)))
        answer = await self._recorded(definition, flags, stdin, starts)
        if not flags.notes:
            return answer
        notes = "".join(f"note: {name}: {note}\n" for note in flags.notes)
        return answer._replace(stderr=notes + answer.stderr)

    async def _recorded(
        self, definition: ToolDef, flags: Flags, stdin: str | None, starts: bool
    ) -> CommandReply:
        name, effects = definition.name, definition.effects
        seq = self._call_log.begin(name, effects, flags.params)
        refusal = self._call_log.refusal(name)
        if refusal:
            self._call_log.end(seq, "limit", exit_code=FAILED, error=refusal)
            return CommandReply("", _said(name, refusal, "call it less often"), FAILED)
        try:
            if self._dry_run and set(effects) != {"read"}:
                return self._only_recorded(seq, name, flags)
            given = self._input(name, flags, stdin) if stdin else None
            if starts:
                result = await self._toolbox.start(name, flags.params, given)
            elif is_immediate.get():
                result = await self._toolbox.call(name, flags.params, given, self._on_step)
            else:
                async with self._parallel:
                    result = await self._toolbox.call(name, flags.params, given, self._on_step)
        except SkillpouchError as error:
            return self._refused(seq, definition, error)
        except Exception:  # noqa: BLE001 - a script must get an answer
            # Skillpouch's own trouble: its words are for the host, not for a script.
            _log.exception("call %d of a script, %s, failed", seq, name)
            self._call_log.end(seq, "failed", exit_code=FAILED, error="internal error")
            return CommandReply("", _said(name, f"internal error (call {seq})", ""), FAILED)
        return self._answered(seq, name, result, starts)

    def _input(self, name: str, flags: Flags, stdin: str) -> str | None:
        """Return what the tool gets on standard input, instead of arguments if it reads those."""
        if flags.uses_stdin:
            return None
        reads_arguments = self._toolbox.tool(name).convention == "stdin"
        return None if reads_arguments and flags.params else stdin

    def _only_recorded(self, seq: int, name: str, flags: Flags) -> CommandReply:
        check_arguments(self._toolbox.tool(name), flags.params)
        self._call_log.end(seq, "dry_run", exit_code=0)
        return CommandReply("", f"dry run: {name} was not called\n")

    def _refused(self, seq: int, definition: ToolDef, error: SkillpouchError) -> CommandReply:
        hint, code = error.advice, FAILED
        if isinstance(error, CallDeniedError):
            code = DENIED
            self._call_log.end(seq, "denied", exit_code=code, error=str(error))
        elif isinstance(error, InvalidArgumentsError):
            code = INVALID
            hint = f"usage: {usage_line(definition)}"
            self._call_log.end(seq, "invalid", exit_code=code, error=str(error))
        else:
            code = NOT_FOUND if isinstance(error, UnknownToolError) else FAILED
            self._call_log.end(seq, "not_started", exit_code=code, error=str(error))
        return CommandReply("", _said(definition.name, f"{error} [{error.code}]", hint), code)

    def refused(self, name: str, error: SkillpouchError) -> CommandReply:
        """Return what a script is told of a job that cannot be reached, or was not allowed."""
        is_denied = isinstance(error, CallDeniedError)
        self._call_log.was_denied |= is_denied
        said = _said(name, f"{error} [{error.code}]", error.advice)
        return CommandReply("", said, DENIED if is_denied else FAILED)

    def _answered(self, seq: int, name: str, result: ToolResult, starts: bool) -> CommandReply:
        answer = printed(name, result)
        self._call_log.end(
            seq,
            "started" if starts else result.outcome,
            exit_code=answer.exit_code,
            output_bytes=byte_count(answer.stdout),
            error="" if result.outcome == "ok" else answer.stderr.strip(),
        )
        return answer


def _not_found(name: str, tools: Iterable[str]) -> str:
    near = nearest(name, tools)
    meant = f". Did you mean: {', '.join(near)}?" if near else ""
    return f"{name}: command not found{meant}\n"


def _said(name: str, message: str, hint: str) -> str:
    words = message.removeprefix(f"{name}: ").removeprefix(f"{name} ")
    return f"{name}: {words}\n" + (f"hint: {hint}\n" if hint else "")
