"""Bash scripts over gRPC: every tool of a session is a command, run in that session."""

import asyncio

from skillpouch.manager import SkillManager
from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.sessions.manager import SessionManager
from skillpouch.shell.responses import ToolResponse


async def run_script(
    manager: SkillManager,
    sessions: SessionManager,
    request: pb.RunScriptRequest,
    timeout: float | None,
) -> ToolResponse:
    """Run a script; it ends when its session does."""
    # Here: the engine of scripts is another extra.
    from skillpouch.shell.scripted_tool import ScriptedTool

    # One for each script: a worker that served one session never serves another.
    tool = ScriptedTool.over(
        sessions.session(request.session_id) if request.session_id else manager
    )
    try:
        return await tool.execute(
            request.script,
            files=dict(request.files),
            timeout=timeout,
            dry_run=request.dry_run,
        )
    finally:
        await asyncio.to_thread(tool.close)
