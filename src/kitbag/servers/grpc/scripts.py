"""Bash scripts over gRPC: every tool of a session is a command, run in that session."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kitbag.executor import ToolExecutor
from kitbag.manager import SkillManager
from kitbag.servers.grpc.v1 import kitbag_pb2 as pb
from kitbag.sessions.manager import SessionManager
from kitbag.shell.responses import ToolResponse
from kitbag.skills import Skill
from kitbag.tools import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The tools of one session as a scripted tool wants them."""

    tools: Sequence[Tool]
    executor: ToolExecutor
    skills: list[Skill]

    def list_skills(self) -> list[Skill]:
        return self.skills


async def run_script(
    manager: SkillManager,
    sessions: SessionManager,
    request: pb.RunScriptRequest,
    timeout: float | None,
) -> ToolResponse:
    """Run a script; it ends when its session does."""

    async def run(executor: ToolExecutor) -> ToolResponse:
        seen = await asyncio.to_thread(_seen, manager, executor)
        return await _run(seen, request, timeout)

    if not request.session_id:
        return await run(manager.executor)
    response: ToolResponse = await sessions.run(request.session_id, run)
    return response


def _seen(manager: SkillManager, executor: ToolExecutor) -> _Seen:
    return _Seen(tools=executor.tools, executor=executor, skills=manager.list_skills())


async def _run(seen: _Seen, request: pb.RunScriptRequest, timeout: float | None) -> ToolResponse:
    # Here: the engine of scripts is another extra.
    from kitbag.shell.scripted_tool import ScriptedTool

    # One for each script: a worker that served one session never serves another.
    tool = ScriptedTool.over(seen)
    try:
        return await tool.execute(
            request.script,
            files=dict(request.files),
            timeout=timeout,
            dry_run=request.dry_run,
        )
    finally:
        await asyncio.to_thread(tool.close)
