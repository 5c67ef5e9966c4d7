"""The public names, used as people use them: checked by mypy, never run."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, assert_type

import skillpouch
from skillpouch import (
    Controls,
    ExecutionLimits,
    Limits,
    Policy,
    ScriptedTool,
    SessionManager,
    Skill,
    SkillManager,
    SkillpouchError,
    Tool,
    ToolArgs,
    ToolDef,
    ToolExecutor,
    ToolRegistry,
    ToolResult,
)
from skillpouch.backends import Backend
from skillpouch.builtins.kept_calls import KeptChanges
from skillpouch.calls import ToolCall
from skillpouch.errors import (
    CallDeniedError,
    InvalidArgumentsError,
    SandboxUnavailableError,
    ScriptExecutionError,
    ScriptTimeoutError,
    SkillInvocationError,
    SkillNotFoundError,
    ToolRestrictionError,
    UnknownToolError,
)
from skillpouch.execution.command import Command
from skillpouch.execution.sandboxes import SandboxProvider
from skillpouch.limits import Writes
from skillpouch.problems import Problem
from skillpouch.results import Conflict, FileChange
from skillpouch.scripts import ScriptMetadata, extract_docstring, generate_script_tool_name
from skillpouch.shell.responses import ToolResponse
from skillpouch.skills import AllowedTools
from skillpouch.testing import BackendCases, check_backend, check_sandbox
from skillpouch.tools import External


@skillpouch.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def find(folder: Path) -> SkillManager:
    manager = SkillManager(folder, policy=Policy(), workspace=folder, limits=Limits())
    manager.discover()
    assert_type(manager.list_skills(), list[Skill])
    assert_type(manager.list_skills(include_qualified=True), list[str])
    assert_type(manager.get_skill("demo"), Skill)
    assert_type(manager.load_skill("demo"), Skill)
    assert_type(manager.invoke_skill("demo", "arguments"), str)
    assert_type(manager.get_skill_tools("demo"), list[Tool])
    assert_type(manager.tools, list[Tool])
    assert_type(manager.problems, list[Problem])
    assert_type(manager.call("demo.hello", {"who": "Ada"}, stdin="text"), ToolResult)
    assert_type(manager.execute_skill_script("demo", "scripts/hello.py", {}), ToolResult)
    assert_type(manager.call_line("demo", "python scripts/hello.py Ada", timeout=1), ToolResult)
    return manager


def look(skill: Skill, found: Tool, result: ToolResult) -> None:
    assert_type(skill.body, str)
    assert_type(skill.metadata.allowed_tools, AllowedTools)
    assert_type(skill.detected_scripts, list[ScriptMetadata])
    assert_type(extract_docstring(Path("hello.py"), "python"), str)
    assert_type(generate_script_tool_name("demo", "scripts/hello.py"), str)
    assert_type((found.id, found.name, found.description), tuple[str, str, str])
    assert_type(found.input_schema, dict[str, Any])
    assert_type(found.ready, bool)
    assert_type((result.content, result.output, result.stdout), tuple[str, str, str])


async def use(manager: SkillManager, sessions: SessionManager) -> None:
    await manager.adiscover()
    assert_type(await manager.ainvoke_skill("demo"), str)
    assert_type(await manager.acall("demo.hello"), ToolResult)
    assert_type(await manager.acall_line("demo", "scripts/hello.py Ada"), ToolResult)
    assert_type(
        await manager.execute_skill_script_async("demo", "scripts/hello.py", {}), ToolResult
    )
    executor = ToolExecutor([add])
    assert_type(executor.register_skill_tools("---\nname: demo\n---\n"), list[str])
    assert_type(executor.unregister_tools(["demo.hello"]), list[str])
    assert_type(executor.definitions(), list[dict[str, Any]])
    assert_type(await executor.execute("add", {"a": 1, "b": 2}), ToolResult)
    assert_type(executor.execute_sync("add", {"a": 1, "b": 2}), ToolResult)
    session = assert_type(await sessions.create_session(), str)
    await sessions.use_skill(session, "demo", "---\nname: demo\n---\n")
    await sessions.destroy_session(session)


def undo(manager: SkillManager, executor: ToolExecutor) -> None:
    result = assert_type(manager.call("demo.hello", writes="staged"), ToolResult)
    assert_type(result.changes, tuple[FileChange, ...])
    assert_type(result.conflicts, tuple[Conflict, ...])
    assert_type((result.writes, result.call_id), tuple[Writes, str])
    assert_type(manager.diff(result, path="a.txt", most_bytes=1000), str)
    assert_type(manager.apply(result.call_id, ["a.txt"]), ToolResult)
    assert_type(manager.discard(7), ToolResult)
    undone = assert_type(manager.undo(result, paths=["a.txt"]), ToolResult)
    assert_type(executor.undo(undone), ToolResult)
    assert_type(executor.undo(calls=2, session="s1"), ToolResult)
    (kept,) = assert_type(executor.changes(session="s1"), list[KeptChanges])
    assert_type((kept.id, kept.state, kept.total), tuple[str, str, int])
    executor.apply(kept)


async def undo_later(manager: SkillManager, sessions: SessionManager) -> None:
    assert_type(await manager.aundo(), ToolResult)
    assert_type(await manager.aapply("7"), ToolResult)
    assert_type(await manager.adiscard("7"), ToolResult)
    assert_type(await manager.adiff("7"), str)
    assert_type(await manager.achanges(), list[KeptChanges])
    assert_type(await sessions.undo("s1", everything=True), ToolResult)
    assert_type(await sessions.apply("s1", "7", ["a.txt"]), ToolResult)
    assert_type(await sessions.discard("s1", "7"), ToolResult)
    assert_type(await sessions.diff("s1", "7"), str)
    assert_type(await sessions.changes("s1"), list[KeptChanges])


def control() -> None:
    controls = Controls(policy=Policy(), limits=Limits(timeout_seconds=5), workspace=Path("work"))
    SkillManager("skills", controls=controls)
    SessionManager([add], controls=controls)
    ToolExecutor([add], controls=controls)
    ToolExecutor([add], policy=Policy(), require=["fs"], read_only=["kept"], journal=False)


def script() -> None:
    def callback(args: ToolArgs) -> str:
        return str(args.params)

    built = (
        ScriptedTool.builder("api", "worker")
        .tool(ToolDef("get_user", "Get a user").with_schema({"type": "object"}), callback)
        .env("REGION", "eu")
        .limits(ExecutionLimits())
        .build()
    )
    assert_type(built, ScriptedTool)
    assert_type(built.execute_sync("get_user --id 1"), ToolResponse)
    assert_type(built.system_prompt(), str)
    registry = ToolRegistry()
    registry.register(built)
    registry.register(add)


def fail(manager: SkillManager) -> str:
    try:
        manager.call("demo.hello")
    except (SkillNotFoundError, UnknownToolError, InvalidArgumentsError) as error:
        return error.code
    except ToolRestrictionError as error:
        assert_type(isinstance(error, CallDeniedError), bool)
        return error.hint
    except ScriptTimeoutError as error:
        assert_type(isinstance(error, ScriptExecutionError | SkillInvocationError), bool)
        return error.stderr
    except SandboxUnavailableError as error:
        return error.code
    except SkillpouchError as error:
        return error.code
    return ""


if __name__ == "__main__":
    asyncio.run(use(find(Path()), SessionManager()))


class OfAnotherPackage:
    """A backend and a sandbox, as other packages write them: interfaces, no base classes."""

    async def run(self, call: ToolCall) -> ToolResult:
        return ToolResult(tool=call.tool.id, outcome="ok", content=str(call.access.secrets))

    def confine(self, command: Command) -> Command:
        return replace(command, argv=("/usr/bin/env", *command.argv), protections={"fs": "env"})


def extend(backend: Backend, sandbox: SandboxProvider) -> None:
    check_backend(backend, BackendCases(works=(External(type="own", options={"a": 1}), {})))
    check_sandbox(sandbox)
    SkillManager("skills", sandbox="bubblewrap", require=["fs"])


def provide() -> None:
    extend(OfAnotherPackage(), OfAnotherPackage())
