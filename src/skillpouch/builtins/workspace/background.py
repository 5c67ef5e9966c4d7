"""Looking at a command in the background, or starting one: what `bash` says of jobs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from skillpouch.backends.interpreters import homes_of
from skillpouch.builtins.workspace.confined import confinement_of
from skillpouch.builtins.workspace.jobs import Look, Made
from skillpouch.builtins.workspace.session import WorkspaceSession
from skillpouch.calls import ToolCall
from skillpouch.execution.command import Command
from skillpouch.execution.shared import run_command
from skillpouch.json_values import json_text
from skillpouch.results import ToolResult
from skillpouch.text import clean
from skillpouch.workspace.kept_folders import look_at_run_later, made_to_run_later

MakeCommand = Callable[[ToolCall, WorkspaceSession], Command]


async def run_in_background(
    call: ToolCall, session: WorkspaceSession, make: MakeCommand
) -> ToolResult:
    """Start a job, look at one, or end one."""
    given = call.arguments
    if "job" not in given:
        return await _start(call, session, make(call, session))
    if given.get("kill", False):
        return _result(call, await session.jobs.end(given["job"]))
    wait = min(given.get("timeout", 0) / 1000, call.limits.timeout_seconds)
    return _result(call, await session.jobs.look(given["job"], wait))


async def _start(call: ToolCall, session: WorkspaceSession, command: Command) -> ToolResult:
    seconds = min(session.jobs.seconds, call.limits.timeout_seconds)
    limits = replace(command.limits, timeout_seconds=seconds)
    command = replace(command, limits=limits, background=True)
    confinement = confinement_of(call, *homes_of(command.argv[0]))
    job = await session.jobs.start(
        call.arguments["command"],
        lambda take: run_command(command, confinement, take),
        _made_since_now(call),
    )
    return ToolResult(
        tool=call.tool.id,
        outcome="ok",
        content=f"started {job}; look at it with job={job!r}, end it with kill",
        structured={"job": job, "running": True},
        exit_code=0,
        stdout=json_text({"job": job, "running": True}),
    )


def _made_since_now(call: ToolCall) -> Made:
    workspace, granted = call.terms.workspace, call.given.writable
    seen = look_at_run_later(workspace)

    def made() -> tuple[str, ...]:
        nonlocal seen
        found = made_to_run_later(workspace, seen, (), granted)
        seen = look_at_run_later(workspace)
        return found

    return made


def _result(call: ToolCall, look: Look) -> ToolResult:
    state = "running" if look.is_running else _ended(look)
    outcome: Literal["ok", "failed"] = "ok"
    if not look.is_running and look.outcome not in ("ok", "cancelled"):
        outcome = "failed"
    text = call.redactor.text(look.text)
    return ToolResult(
        tool=call.tool.id,
        outcome=outcome,
        content=clean("\n".join(filter(None, (text.removesuffix("\n"), f"[{look.id}: {state}]")))),
        structured={"job": look.id, "running": look.is_running, "exit_code": look.exit_code},
        exit_code=look.exit_code if not look.is_running else 0,
        stdout=text,
    ).with_run_later(look.run_later)


def _ended(look: Look) -> str:
    if look.outcome == "cancelled":
        return "ended as asked"
    if look.exit_code is None:
        return look.outcome
    return f"ended with exit code {look.exit_code}"
