"""Results, tools and errors cross processes: pickled, copied or taken apart, they stay the same."""

import copy
import importlib
import inspect
import pickle
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import skillpouch
from skillpouch import ScriptedTool, SkillManager, ToolExecutor, results, tool
from skillpouch.builtins.workspace.context import WorkspaceSession
from skillpouch.errors import UnboundToolError
from skillpouch.needs import Need
from skillpouch.net.hosts import Host
from skillpouch.problems import Problem
from skillpouch.results import (
    Attachment,
    Captured,
    ChangedFile,
    Conflict,
    FileChange,
    HttpAnswer,
    Progress,
    ToolResult,
)
from skillpouch.sessions import SessionManager
from skillpouch.shell import call_log, engine, responses
from skillpouch.shell.call_log import ScriptEvent
from skillpouch.shell.engine import Crash
from skillpouch.shell.responses import Artifact, ScriptCall, ToolResponse
from skillpouch.tools import (
    _KINDS,
    Binary,
    BuiltIn,
    External,
    Function,
    Hosted,
    Http,
    InlineScript,
    Script,
    Stub,
    Tool,
)
from tests.conftest import WriteSkill

# What runs by path in another process, without the rest of Skillpouch; and generated code.
_ELSEWHERE = ("runners", "zygote", "prefork", "v1", "__main__")
WAYS: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


def modules() -> Iterator[Any]:
    for found in pkgutil.walk_packages(skillpouch.__path__, "skillpouch."):
        if not set(_ELSEWHERE) & set(found.name.split(".")):
            yield importlib.import_module(found.name)


def error_classes() -> list[type[BaseException]]:
    """Every error that Skillpouch defines, found by looking at every module."""
    return [
        each
        for module in modules()
        for each in vars(module).values()
        if isinstance(each, type)
        and issubclass(each, BaseException)
        and each.__module__ == module.__name__
    ]


# By words of an annotation: what an error may be made of.
_FACTS: dict[str, Any] = {
    "Problem": (Problem(path="p", code="c", severity="error", message="m", line=3),),
    "Need": (Need(kind="host", value="example.org"),),
    "Host": Host("example.org"),
    "Crash": Crash(reason="gone", signal=9),
    "Path": Path("/some/where"),
    "Iterable": ("one", "two"),
    "Sequence": ("one", "two"),
    "Mapping": {"one": "two"},
    "tuple": ("one", "two"),
    "list": ["one", "two"],
    "set": frozenset(("one", "two")),
    "bool": True,
    "int": 7,
    "float": 1.5,
}


def made(kind: type[BaseException]) -> BaseException:
    """Make an error of facts that fit what its class takes."""
    if kind.__init__ in (BaseException.__init__, Exception.__init__, ValueError.__init__):
        return kind("a message")
    words, named = [], {}
    for name, each in list(inspect.signature(kind.__init__).parameters.items())[1:]:
        said = str(each.annotation)
        fact = next((value for word, value in _FACTS.items() if word in said), f"some {name}")
        fact = fact[0] if each.annotation is Need else fact
        if each.kind is each.KEYWORD_ONLY:
            named[name] = fact
        elif each.kind is not each.VAR_KEYWORD:
            words.append(fact)
    return kind(*words, **named)


def facts(error: BaseException) -> Any:
    return type(error), error.args, str(error), vars(error)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_an_error_stays_the_same(kind: type[BaseException], way: str) -> None:
    error = made(kind)

    back = WAYS[way](error)

    assert facts(back) == facts(error)


_CALL = ScriptCall(seq=1, tool="t", params={"a": [1]}, outcome="ok", effects=("read",))
_RESULT = ToolResult(
    tool="a.b",
    outcome="ok",
    content="c",
    structured={"a": [1, None]},
    saved=(Path("/x"),),
    protections={"fs": "landlock"},
    files=(ChangedFile(path="f", type="text/plain", size=1),),
    changes=(FileChange(path="f", change="created", size=1, mode=0o644),),
    conflicts=(Conflict(path="g", reason="it was changed"),),
    attachments=(Attachment(name="i", type="image/png", data=b"\x89"),),
    timings=(("run", 1.5),),
    http=HttpAnswer(status=200, url="http://x", headers={"etag": "e"}),
)
VALUES: list[Any] = [
    _RESULT,
    Captured(head=b"h", tail=b"t", total_bytes=9, saved_to=Path("/x")),
    *_RESULT.files,
    *_RESULT.changes,
    *_RESULT.conflicts,
    *_RESULT.attachments,
    _RESULT.http,
    Progress(1, 2, "m"),
    _CALL,
    Artifact(path="a", data=b"\xff"),
    ToolResponse(stdout="o", stderr="e", exit_code=0, result={"a": 1}, calls=(_CALL,), state="s"),
    ScriptEvent(kind="call_ended", call=_CALL),
    Crash(reason="r", signal=9),
]


def test_no_kind_of_result_is_forgotten() -> None:
    found = {
        each
        for module in (results, responses, call_log, engine)
        for each in vars(module).values()
        if isinstance(each, type) and is_dataclass(each) and each.__module__ == module.__name__
    }

    assert found - {engine.ScriptJob} == {
        type(value) for value in VALUES
    }  # a job is an order, no result


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_result_stays_the_same(value: Any, way: str) -> None:
    back = WAYS[way](value)

    assert (type(back), back) == (type(value), value)
    assert asdict(back) == asdict(value)


def double(n: int) -> int:
    """Double a number."""
    return n * 2


async def _answer(_call: Any) -> ToolResult:
    return _RESULT


class _Shouter:
    """Something of a host that must not be copied with a tool."""

    def shout(self, text: str) -> str:
        return text.upper()

    def __deepcopy__(self, memo: Any) -> None:
        raise AssertionError("a host's object was copied")

    def __reduce__(self) -> Any:
        raise AssertionError("a host's object was pickled")


def tool_running(runs: Any) -> Tool:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    return Tool(id="a.b", name="b", skill="a", description="B.", input_schema=schema, runs=runs)


RUNS: list[Any] = [
    Script(file="/s.py", language="python", convention="handler"),
    InlineScript(interpreter="bash", text="echo"),
    Binary(path="/bin/true", sha256={"any": "x"}),
    Http(url="https://x", headers={"a": "b"}),
    External(type="sql", options={"query": "SELECT 1", "of": [1]}, package="a"),
    Stub(skill="a"),
    Function(call=double),
    Function(call=lambda n: n),
    Function(call=_Shouter().shout),
    Hosted(what="something", run=_answer),
    BuiltIn(name="read", session=WorkspaceSession(), run=_Shouter().shout),
]


def test_no_kind_of_tool_is_forgotten() -> None:
    assert {type(runs) for runs in RUNS} == set(_KINDS)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("runs", RUNS, ids=lambda runs: type(runs).__name__)
def test_a_tool_stays_the_same(runs: Any, way: str) -> None:
    bound = ToolExecutor([tool_running(runs)]).tools[0]

    back = WAYS[way](bound)

    assert (type(back), back) == (Tool, bound)
    assert asdict(back)["input_schema"] == asdict(bound)["input_schema"]
    assert (back.caller is None) == (way == "pickle")


async def test_tools_and_results_of_every_owner_cross(write_skill: WriteSkill) -> None:
    root = write_skill("sums", files={"scripts/say.sh": "echo '[1]'\n"}).parent
    manager = SkillManager(root, workspace=root, builtins=True, define_tools=True, disclosure=True)
    sessions = SessionManager(manager, builtins=True, define_tools=True)
    session = await sessions.create_session()
    scripted = ScriptedTool.over(manager).as_tool()
    tools = [*manager.tools, *await sessions.tools(session), scripted, tool(double)]

    assert len({each.id for each in tools}) > 12
    for each in tools:
        for way in WAYS.values():
            assert way(each) == each
        asdict(each)
    ran = [await manager.acall("sums.say"), await manager.acall("read", {"file_path": "no"})]
    for result in ran:
        for way in WAYS.values():
            assert way(result) == result
        assert asdict(result)["tool"] == result.tool
    await sessions.close()


def test_a_tool_in_another_process_says_how_it_is_bound_again_and_then_runs(
    tmp_path: Path,
) -> None:
    (tmp_path / "theirs.py").write_text(
        "def double(n: int) -> int:\n    '''Double a number.'''\n    return n * 2\n"
    )
    make = "import pickle, sys, skillpouch, theirs\n"
    made = subprocess.run(
        [
            *(sys.executable, "-c"),
            f"{make}sys.stdout.buffer.write(pickle.dumps(skillpouch.tool(theirs.double)))",
        ],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    ).stdout
    program = (
        "import pickle, sys, skillpouch\n"
        "tool = pickle.loads(sys.stdin.buffer.read())\n"
        "try:\n    tool.invoke({'n': 4})\n"
        "except skillpouch.SkillpouchError as error:\n    print(error.code, '|', error.hint)\n"
        "print(skillpouch.ToolExecutor([tool]).execute_sync('double', {'n': 4}).content)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], input=made, cwd=tmp_path, capture_output=True, check=True
    )

    first, second = ran.stdout.decode().splitlines()
    assert first.startswith("unbound_tool | ")
    assert "register it: ToolExecutor([tool])" in first
    assert second == "8"


def test_a_function_that_no_other_process_can_import_says_so_when_it_is_called() -> None:
    there = pickle.loads(pickle.dumps(replace(tool_running(Function(call=lambda n: n)), id="own")))

    result = ToolExecutor([there]).execute_sync("own", {"n": 1})

    assert result.outcome == "failed"
    assert "was made in another process" in result.content


def test_tools_of_langchain_stay_the_same(write_skill: WriteSkill) -> None:
    pytest.importorskip("langchain_core")
    from skillpouch.integrations.langchain import create_langchain_tools

    root = write_skill("sums", files={"scripts/say.sh": "echo hi\n"}).parent
    tools = create_langchain_tools(SkillManager(root, workspace=root))

    for each in tools:
        for way in WAYS.values():
            assert way(each) == each
        there = WAYS["pickle"](each)
        with pytest.raises(UnboundToolError, match="belongs to no executor"):
            there.invoke({})
    assert copy.deepcopy(tools[1]).invoke({}) == "hi"
