"""The spine: who raises and who returns, limits, live output, and how calls are ended."""

import asyncio
import json
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from skillpouch import Limits, SkillManager, SkillpouchError, ToolExecutor, ToolRegistry, tool
from skillpouch.builtins.workspace.context import WorkspaceSession
from skillpouch.errors import (
    AmbiguousNameError,
    CallDeniedError,
    InvalidArgumentsError,
    NotRunnableError,
    SandboxUnavailableError,
    ScriptExecutionError,
    ScriptTimeoutError,
    ToolRestrictionError,
    UnboundToolError,
    UnknownToolError,
)
from skillpouch.tools import Binary, BuiltIn, InlineScript, Tool
from tests.conftest import WriteSkill

MakeManager = Callable[..., SkillManager]
LAYERS = {"fs", "net", "tree", "signals", "memory", "processes", "syscalls"}
SCRIPTS = {
    "scripts/echo.sh": "cat\n",
    "scripts/fail.sh": "echo out; echo err >&2; exit 3\n",
    "scripts/hang.sh": "echo ready; setsid sleep 1000 & sleep 1000\n",
    "scripts/hear.py": "def main(n: int = 0) -> dict:\n    return {'n': n}\n",
    "scripts/both.sh": "echo one; echo two >&2; echo three\n",
}


@pytest.fixture
def manager_of(write_skill: WriteSkill, tmp_path: Path) -> MakeManager:
    def make(
        files: dict[str, str] = SCRIPTS, front: str | None = None, **options: Any
    ) -> SkillManager:
        (tmp_path / "workspace").mkdir()
        root = write_skill(files=files, front=front).parent
        return SkillManager(root, workspace=tmp_path / "workspace", cache=False, **options)

    return make


def test_an_unknown_tool_raises_and_names_the_nearest(manager_of: MakeManager) -> None:
    with pytest.raises(UnknownToolError) as caught:
        manager_of().call("demo.ecko")

    assert "did you mean 'demo.echo'" in caught.value.hint


def test_a_name_that_two_skills_have_raises(manager_of: MakeManager, write_skill: Any) -> None:
    write_skill("other", files={"scripts/echo.sh": "cat\n"})

    with pytest.raises(AmbiguousNameError):
        manager_of().call("echo")


def test_wrong_arguments_raise_before_anything_runs(
    manager_of: MakeManager, tmp_path: Path
) -> None:
    declared = [
        {"name": "x", "description": "d", "script": "scripts/x.sh", "parameters": {"n": "integer"}}
    ]
    files = {"scripts/x.sh": "touch ran\n", "tools.json": json.dumps(declared)}

    with pytest.raises(InvalidArgumentsError):
        manager_of(files).call("x", {"n": "one"})

    assert not (tmp_path / "workspace/ran").exists()


def test_allowed_tools_without_bash_deny_discovered_scripts_and_not_declared_ones(
    manager_of: MakeManager,
) -> None:
    front = (
        "name: demo\ndescription: d\nallowed-tools: Read\n"
        "tools:\n  - {name: own, description: d, script: scripts/echo.sh}\n"
    )
    manager = manager_of(SCRIPTS, front)

    with pytest.raises(ToolRestrictionError, match=r"Tool 'Bash' not allowed for skill 'demo'"):
        manager.call("demo.both")
    with pytest.raises(CallDeniedError):
        manager.execute_skill_script("demo", "scripts/both.sh")
    assert manager.call("own").outcome == "ok"


def test_a_tool_with_nothing_to_run_raises(manager_of: MakeManager) -> None:
    declared = [{"name": "x", "description": "d"}]

    with pytest.raises(NotRunnableError) as caught:
        manager_of({"tools.json": json.dumps(declared)}).call("x")

    assert "'demo'" in f"{caught.value} {caught.value.hint}"


def test_a_tool_that_ran_and_failed_is_returned_and_invoke_raises(manager_of: MakeManager) -> None:
    manager = manager_of()

    results = [manager.call("fail"), manager.execute_skill_script("demo", "scripts/fail.sh")]

    assert [(r.outcome, r.exit_code, r.stderr) for r in results] == [("failed", 3, "err\n")] * 2
    with pytest.raises(ScriptExecutionError) as caught:
        manager.get_tool("fail").invoke()
    assert (caught.value.exit_code, caught.value.stderr) == (3, "err\n")
    assert manager.get_tool("echo").invoke({"a": 1}) == '{"a": 1}'


async def test_ainvoke_raises_too_and_a_timeout_is_its_own_error(manager_of: MakeManager) -> None:
    manager = manager_of(limits=Limits(timeout_seconds=0.3))

    with pytest.raises(ScriptTimeoutError) as caught:
        await manager.get_tool("hang").ainvoke()

    assert (caught.value.exit_code, caught.value.timeout_seconds) == (124, 0.3)


def test_a_tool_that_no_executor_knows_cannot_be_invoked() -> None:
    @tool
    def lonely() -> str:
        return "?"

    with pytest.raises(UnboundToolError):
        lonely.invoke()


@pytest.mark.parametrize("asked", [0.2, 0, -1, float("nan")])
def test_a_caller_may_lower_the_time(asked: float, manager_of: MakeManager) -> None:
    result = manager_of().call("hang", timeout=asked)

    assert (result.outcome, result.exit_code, result.code) == ("timed_out", 124, "timeout")
    assert "timed out after" in result.content


@pytest.mark.parametrize(
    ("runs", "seconds"),
    [
        (Binary(path="true"), 60),
        (InlineScript(interpreter="sh", text="true"), 60),
        (BuiltIn(name="bash", session=WorkspaceSession()), 120),
        (BuiltIn(name="ls", session=WorkspaceSession()), 30),
    ],
    ids=["binary", "inline", "bash", "ls"],
)
async def test_a_tool_made_in_code_has_the_time_of_its_kind(
    runs: Binary | InlineScript | BuiltIn, seconds: float, tmp_path: Path
) -> None:
    properties: dict[str, Any] = {"command": {}} if seconds == 120 else {}
    schema = {"type": "object", "properties": properties}
    made = Tool(id="s.t", name="t", skill="s", description="", input_schema=schema, runs=runs)
    arguments = dict.fromkeys(properties, "true")

    result = await ToolExecutor([made], workspace=tmp_path).execute("t", arguments)

    assert (result.outcome, result.timeout_seconds) == ("ok", seconds)


@pytest.mark.parametrize("limits", [None, Limits(keep_bytes=5_000)])
def test_a_declared_timeout_holds(limits: Limits | None, manager_of: MakeManager) -> None:
    entry = {"name": "x", "description": "d", "script": "scripts/x.sh", "timeout_ms": 200}
    files = {"scripts/x.sh": "sleep 5\n", "tools.json": json.dumps([entry])}

    result = manager_of(files, limits=limits).call("x")

    assert (result.outcome, result.timeout_seconds) == ("timed_out", 0.2)


def test_limits_of_the_manager_reach_the_call(manager_of: MakeManager) -> None:
    limits = Limits(keep_bytes=100, kill_bytes=10_000)
    files = {"scripts/some.sh": "printf '%0500d' 0\n", "scripts/endless.sh": "yes\n"}
    manager = manager_of(files, limits=limits)

    some, endless = manager.call("some"), manager.call("endless")

    assert (some.outcome, some.truncated, some.saved[0].stat().st_size) == ("ok", True, 500)
    assert (endless.outcome, endless.code) == ("killed", "output_limit")
    assert "more than 10,000 bytes" in endless.content


@pytest.mark.parametrize("given", ["typed ü", b"typed \xc3\xbc"])
def test_standard_input_that_is_given_wins(given: str | bytes, manager_of: MakeManager) -> None:
    assert manager_of().call("echo", {"a": 1}, stdin=given).content == "typed ü"


async def test_live_output_comes_on_the_loop_of_the_caller_and_before_the_result(
    manager_of: MakeManager,
) -> None:
    heard: list[tuple[str, bytes, int]] = []

    def hear(stream: Literal["stdout", "stderr"], piece: bytes) -> None:
        asyncio.get_running_loop()
        heard.append((stream, piece, threading.get_ident()))

    await manager_of().acall("both", on_output=hear)

    said = {name: b"".join(p for s, p, _ in heard if s == name) for name in ("stdout", "stderr")}
    assert said == {"stdout": b"one\nthree\n", "stderr": b"two\n"}
    assert {thread for _, _, thread in heard} == {threading.get_ident()}


async def test_live_output_comes_while_the_tool_runs(
    manager_of: MakeManager, tmp_path: Path
) -> None:
    # It ends only when the one who listens has answered.
    script = "echo ready; while [ ! -e go ]; do sleep 0.01; done; echo done\n"

    def answer(_: str, piece: bytes) -> None:
        if b"ready" in piece:
            (tmp_path / "workspace/go").touch()

    # Directly: it meets the file that is made while it runs.
    manager = manager_of({"scripts/x.sh": script}, writes="direct")
    result = await manager.acall("x", on_output=answer)

    assert result.stdout == "ready\ndone\n"


@pytest.mark.parametrize("how", ["sync", "async"])
async def test_a_listener_that_raises_ends_the_call_with_its_error(
    how: str, manager_of: MakeManager
) -> None:
    def complain(_: str, __: bytes) -> None:
        raise LookupError("listener")

    manager = manager_of()
    blocking = partial(manager.call, "hang", timeout=5, on_output=complain)
    waiting = manager.acall("hang", timeout=5, on_output=complain)
    with pytest.raises(LookupError, match="listener"):
        await (waiting if how == "async" else asyncio.to_thread(blocking))
    waiting.close()


@pytest.mark.parametrize("name", ["echo", "fail", "hear", "hang"])
def test_every_result_says_what_protected_it(name: str, manager_of: MakeManager) -> None:
    protections = manager_of().call(name, timeout=0.5).protections

    assert set(protections) >= LAYERS
    assert "none" not in (protections["fs"], protections["net"], protections["tree"])


def test_without_a_sandbox_every_result_says_so(manager_of: MakeManager) -> None:
    protections = manager_of(sandbox="off").call("echo").protections

    assert (protections["fs"], protections["net"], protections["syscalls"]) == ("none",) * 3


@pytest.mark.parametrize("required", [["fs"], ("net", "tree", "fs"), iter(["fs"]), {"syscalls"}])
def test_a_required_protection_that_is_missing_lets_nothing_run(
    required: Any, manager_of: MakeManager, tmp_path: Path
) -> None:
    manager = manager_of({"scripts/x.sh": "touch ran\n"}, sandbox="off", require=required)

    with pytest.raises(SandboxUnavailableError):
        manager.call("x")

    assert not (tmp_path / "workspace/ran").exists()


@pytest.mark.parametrize("wrong", [{"require": ["wings"]}, {"sandbox": "maybe"}, {"require": "fs"}])
def test_a_protection_that_does_not_exist_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"not a protection|no installed package provides"):
        SkillManager("nowhere", **wrong)


def test_an_executor_over_a_registry_sees_what_is_registered_later(tmp_path: Path) -> None:
    registry = ToolRegistry()
    executor = ToolExecutor(registry, workspace=tmp_path)

    @tool
    def late() -> str:
        return "here"

    registry.register(late)

    assert executor.execute_sync("late").content == "here"


def test_everything_that_is_raised_is_one_family(manager_of: MakeManager) -> None:
    with pytest.raises(SkillpouchError):
        manager_of().call("echo", {"data": "\ud800"})
    with pytest.raises(SkillpouchError):
        SkillManager("nowhere").call("echo", None, stdin="\ud800")


async def test_an_executor_has_skillpouchs_own_tools_when_it_is_told_to(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    manager = SkillManager(write_skill().parent)
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "note.txt").write_text("hello")

    executor = ToolExecutor(manager.source, workspace=workspace, builtins=True)
    result = await executor.execute("grep", {"pattern": "hello"})

    assert (result.outcome, "note.txt" in result.content) == ("ok", True)
    names = [tool.id for tool in executor.tools]
    own = ["bash", "read", "write", "edit", "grep", "glob", "ls", "run_for_skill"]
    assert names == own
    assert ToolExecutor(manager.source).tools == []
    assert manager.tools == []
