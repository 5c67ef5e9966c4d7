"""Lists the built-in workspace tools, and turns a call of one into a result."""

import asyncio
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cache

from skillpouch.builtins.workspace import bash, edit, glob, grep, ls, read, skill_shell, write
from skillpouch.builtins.workspace.context import ToolAnswer, WorkspaceSession
from skillpouch.calls import ToolCall
from skillpouch.errors import ToolFaultError
from skillpouch.execution.command import TIMED_OUT, Ended
from skillpouch.execution.zygote_client import open_stack
from skillpouch.json_values import json_text
from skillpouch.results import Captured, ToolResult
from skillpouch.text import clean
from skillpouch.tools import BuiltIn, Tool
from skillpouch.untrusted_files import shown_by

_TOOLS = (bash, read, write, edit, grep, glob, ls)
_IN_A_THREAD = {each.DEFINITION.name: each.run for each in (read, write, edit, glob, ls)}
# These start no process: they open every path by descriptors that cannot leave the workspace.
_HELD_BY = {"fs": "openat"}


def built_in_tools(
    session: WorkspaceSession | None = None, skills: object | None = None
) -> list[Tool]:
    """Return the tools of one session, in the order in which models are shown them.

    Tools of one session share its memory: current folder, files read, running jobs. For a source
    of tools that knows skills, `skills`, there is one more, which runs commands for a skill.
    """
    remembered = session or WorkspaceSession()
    # Made once and changed in one place: a thousand sessions share their schemas.
    tools = [replace(tool, runs=BuiltIn(name=tool.name, session=remembered)) for tool in _made()]
    find = skill_shell.finder_of(skills)
    if find is None:
        return tools
    return [*tools, skill_shell.DEFINITION.tool(skill_shell.SkillCommands(find))]


@cache
def _made() -> tuple[Tool, ...]:
    return tuple(each.DEFINITION.tool(None) for each in _TOOLS)


class BuiltInBackend:
    """Runs the built-in tools."""

    async def run(self, call: ToolCall) -> ToolResult:
        """Run one of Skillpouch's own tools in the workspace of the call."""
        built_in = call.tool.runs
        assert isinstance(built_in, BuiltIn)
        started = time.monotonic()
        try:
            with await _as_staged(call):
                result = await _run(call, built_in)
        except ToolFaultError as fault:
            result = _failed(call, fault)
        if result.duration_ms:
            return result
        return replace(result, duration_ms=round((time.monotonic() - started) * 1000, 3))


async def _as_staged(call: ToolCall) -> AbstractContextManager[None]:
    """Let paths of the workspace be found as the session has staged them inside this block."""
    if not call.stack:
        return nullcontext()
    workspace = call.terms.workspace
    view = await asyncio.to_thread(open_stack, (*call.stack, workspace))
    return shown_by(str(workspace), view)


async def _run(call: ToolCall, built_in: BuiltIn) -> ToolResult:
    if built_in.run is not None:
        return _answered(call, await asyncio.to_thread(built_in.run, call))
    session: WorkspaceSession = built_in.session
    if built_in.name == "bash":
        return await bash.run(call, session)
    if built_in.name == skill_shell.DEFINITION.name:
        return await skill_shell.run(call)
    if built_in.name == "grep":
        answer, ended = await grep.run(call)
        return _answered(call, answer, ended)
    # Other built-in tools have an object that answers their calls.
    work = _IN_A_THREAD.get(built_in.name) or built_in.session.answer
    try:
        async with asyncio.timeout(call.limits.timeout_seconds):
            answer = await asyncio.to_thread(work, call, session)
    except TimeoutError:
        raise ToolFaultError(
            "timeout", f"not done after {call.limits.timeout_seconds:g} s"
        ) from None
    return _answered(call, answer)


def _answered(call: ToolCall, answer: ToolAnswer, ended: Ended | None = None) -> ToolResult:
    data = _data(answer).encode("utf-8", "replace")
    if call.on_output is not None:
        call.on_output("stdout", data)
    kept = Captured.of(data, call.limits.keep_bytes)
    return ToolResult(
        tool=call.tool.id,
        outcome="ok",
        content=clean(answer.text),
        structured=answer.structured,
        exit_code=0,
        stdout=kept.text,
        truncated=answer.truncated or kept.truncated,
        protections=_held_by(call) if ended is None else ended.protections,
        files=answer.files,
        attachments=answer.attachments,
        timeout_seconds=call.limits.timeout_seconds,
    )


def _held_by(call: ToolCall) -> dict[str, str]:
    return _HELD_BY if call.writes == "direct" else {**_HELD_BY, "writes": "layer"}


def _data(answer: ToolAnswer) -> str:
    if answer.data is not None:
        return answer.data
    return answer.text if answer.structured is None else json_text(answer.structured)


def _failed(call: ToolCall, fault: ToolFaultError) -> ToolResult:
    message = clean("\n".join(filter(None, (f"{fault}", fault.hint and f"hint: {fault.hint}"))))
    late = fault.kind == "timeout"
    return ToolResult(
        tool=call.tool.id,
        outcome="timed_out" if late else "failed",
        content=message,
        structured={"error": str(fault), "kind": fault.kind},
        exit_code=TIMED_OUT if late else 1,
        stderr=message,
        code=fault.kind,
        timeout_seconds=call.limits.timeout_seconds,
    )
