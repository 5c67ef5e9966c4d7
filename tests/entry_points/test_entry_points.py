"""One tool, the same arguments, the same answer: whichever door the call comes through."""

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from skillpouch import SkillManager, SkillpouchError
from skillpouch.cli import cli
from skillpouch.integrations.anthropic import run_anthropic_calls
from skillpouch.integrations.langchain import create_langchain_tools
from skillpouch.integrations.long_calls import LongCallOptions
from skillpouch.integrations.openai import run_openai_calls
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "skills"
PDF = "skills/pdf-extractor/assets/sample.pdf"
GOOD: dict[str, Any] = {
    "acme:csv-report.summarize": {
        "path": "skills/acme-plugin/skills/csv-report/assets/sales.csv",
    },
    "calculator.add": {"a": 2, "b": 3.5},
    "calculator.multiply": {"numbers": [19.99, 3, 1.2], "digits": 2},
    "calculator.stats.mean": {"numbers": [2, 4, 4, 5]},
    "calculator.stats.median": {"numbers": [2, 4, 4, 5], "low": True},
    "calculator.stats.stdev": {"numbers": [2, 4, 4, 5], "population": True, "digits": 3},
    "count-words.count_words": {"text": "files, not servers"},
    "data-processor.chunk-text": {"text": "one two three four", "chunk_size": 9},
    "data-processor.tally-lines": {"text": "b\na\nb\n"},
    "data-processor.sort-file": {"file": "skills/data-processor/assets/cities.csv", "column": 2},
    "data-processor.where-am-i": {},
    "file-processor.read_file": {"path": "skills/file-processor/assets/haiku.txt", "limit": 1},
    "file-processor.write_file": {"path": "notes.txt", "text": "first line"},
    "greeter.greet": {"args": ["Ada Lovelace"]},
    "greeter.guest_list": {"data": ["Ada", "Grace"]},
    "json-query.query_json": {
        "file": "skills/json-query/assets/team.json",
        "path": "members[*].name",
    },
    "json-query.flatten_json": {"document": {"a": {"b": [1, True]}}},
    "json-query.diff": {"before": {"a": 1}, "after": {"a": 2}},
    "pdf-extractor.convert": {"file": PDF, "format": "markdown"},
    "pdf-extractor.extract": {"pdf": PDF},
    "pdf-extractor.utils-parse": {"stream": "BT (Hello) Tj ET"},
    "release-notes.group_changes": {"changes": ["feat: add search", "fix(ui): keep the order"]},
    "release-notes.next_version": {"current": "1.2.3", "changes": ["feat: confine everything"]},
    "release-notes.thank_authors": {"authors": ["Grace", "Ada", "Ada"]},
    "text-tools.slugify": {"text": "Crème brûlée, for 4!"},
    "text-tools.wrap_text": {"text": "The quick brown fox jumps over it", "width": 12},
    "text-tools.measure": {"file": "skills/text-tools/assets/poem.txt"},
    "text-tools.title_case": {"args": ["the return of the king"]},
}
BAD: dict[str, tuple[str, Any]] = {
    "arguments that do not fit": ("calculator.add", {"a": "two", "b": 3}),
    "a tool that fails": ("file-processor.read_file", {"path": "no-such-file"}),
    "a call that is denied": ("weather.current-weather", {"location": "Oslo"}),
    "a tool without a program": ("release-notes.write_summary", {}),
    "a tool that does not exist": ("calculator__divide", {}),
}
# Its packages would have to be fetched.
LEFT_OUT = {"acme:csv-report.as_table", "weather.weather-forecast"}

# Otherwise a call that nobody approves would wait for `skillpouch approve`.
DENIED_AT_ONCE = LongCallOptions(keep_questions=False)

Answer = tuple[bool, str]  # whether it went wrong, and the text
Door = Callable[[SkillManager, str, Any], Answer]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("doors")
    shutil.copytree(EXAMPLES, folder / "skills")
    return folder


@pytest.fixture
def manager(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SkillManager]:
    monkeypatch.chdir(workspace)
    yield SkillManager(workspace / "skills", workspace=workspace)
    (workspace / "notes.txt").unlink(missing_ok=True)


def by_library(manager: SkillManager, tool: str, arguments: Any) -> Answer:
    try:
        result = manager.call(tool, arguments)
    except SkillpouchError as error:
        return True, str(error)
    return result.is_error, result.stderr if result.is_error else result.content


def by_command(manager: SkillManager, tool: str, arguments: Any) -> Answer:
    root, workspace = manager.roots[0], manager.roots[0].parent
    words = ["call", tool, "--args", json.dumps(arguments), "--root", str(root), "--json"]
    ran = CliRunner().invoke(cli, [*words, "--workspace", str(workspace)])
    if isinstance(ran.exception, SkillpouchError):
        return True, str(ran.exception)
    found = json.loads(ran.stdout)
    return found["is_error"], found["stderr"] if found["is_error"] else found["content"]


def by_langchain(manager: SkillManager, tool: str, arguments: Any) -> Answer:
    made = create_langchain_tools(manager, naming="dotted", long_calls=DENIED_AT_ONCE)
    tools = {each.name: each for each in made}
    if tool not in tools:
        return True, f"no tool named {tool!r}"  # LangGraph itself says so
    call = {"name": tool, "args": arguments, "id": "1", "type": "tool_call"}
    message = tools[tool].invoke(call)
    return message.status == "error", message.content


def by_openai_chat(manager: SkillManager, tool: str, arguments: Any) -> Answer:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    calls = [{"id": "1", "type": "function", "function": function}]
    said = {"role": "assistant", "tool_calls": calls}
    (message,) = run_openai_calls(said, manager, long_calls=DENIED_AT_ONCE)
    return _without_mark(message["content"])


def by_openai_responses(manager: SkillManager, tool: str, arguments: Any) -> Answer:
    call = {"type": "function_call", "call_id": "1", "name": tool}
    said = {"output": [call | {"arguments": json.dumps(arguments)}]}
    (item,) = run_openai_calls(said, manager, long_calls=DENIED_AT_ONCE)
    return _without_mark(item["output"])


def by_anthropic(manager: SkillManager, tool: str, arguments: Any) -> Answer:
    call = {"type": "tool_use", "id": "1", "name": tool, "input": arguments}
    (message,) = run_anthropic_calls({"content": [call]}, manager, long_calls=DENIED_AT_ONCE)
    (block,) = message["content"]
    return block.get("is_error", False), block["content"]


def by_pydantic_ai(manager: SkillManager, tool: str, arguments: Any) -> Answer:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai import ModelRetry
    from pydantic_ai.exceptions import ToolFailed

    from skillpouch.integrations.pydantic_ai import SkillpouchToolset

    async def call() -> Answer:
        context: Any = SimpleNamespace(run_id=None, tool_call_id=None)
        toolset: Any = SkillpouchToolset(manager, long_calls=DENIED_AT_ONCE)
        tools = await toolset.get_tools(None)
        name = next((n for n, t in tools.items() if t.tool_def.metadata["id"] == tool), None)
        if name is None:
            return True, f"no tool named {tool!r}"  # the framework itself says so
        try:
            found = await toolset.call_tool(name, arguments, context, tools[name])
        except (ModelRetry, ToolFailed) as error:
            return True, error.message
        return False, found.return_value

    return asyncio.run(call())


def by_agents(manager: SkillManager, tool: str, arguments: Any) -> Answer:
    pytest.importorskip("agents")
    from skillpouch.integrations.agents import agents_tools

    wanted = agents_tools(manager, include=tool, long_calls=DENIED_AT_ONCE)
    if not wanted:
        return True, f"no tool named {tool!r}"  # the framework itself says so
    context: Any = SimpleNamespace(tool_call_id="1")

    async def call() -> Answer:
        return _without_mark(await wanted[0].on_invoke_tool(context, json.dumps(arguments)))

    return asyncio.run(call())


def by_mcp(manager: SkillManager, tool: str, arguments: Any) -> Answer:
    pytest.importorskip("mcp")
    from mcp import MCPError
    from mcp.client.client import Client

    from skillpouch.servers.mcp import LongCalls, McpServer
    from tests.servers.mcp.serving import listening
    from tests.servers.mcp.test_tools import text_of

    names = {each.id: each.name for each in manager.tools}

    async def call() -> Answer:
        # Otherwise a call that nobody approves would wait, and not be denied.
        server = McpServer(manager, watch=False, long_calls=LongCalls(approvals="nobody"))
        async with listening(server) as url, Client(url) as client:
            try:
                found = await client.call_tool(names.get(tool, tool), arguments)
            except MCPError as error:
                return True, str(error)
        return bool(found.is_error), text_of(found)

    return asyncio.run(call())


def _without_mark(text: str) -> Answer:
    return text.startswith("Error: "), text.removeprefix("Error: ")


DOORS: list[Door] = [
    by_command,
    by_langchain,
    by_openai_chat,
    by_openai_responses,
    by_anthropic,
    by_pydantic_ai,
    by_agents,
    by_mcp,
]


def test_every_example_tool_is_in_the_table(manager: SkillManager) -> None:
    tools = {tool.id for tool in manager.tools}

    assert tools == GOOD.keys() | {tool for tool, _ in BAD.values()} & tools | LEFT_OUT


@pytest.mark.timeout(300)
@pytest.mark.parametrize("tool", GOOD)
def test_every_door_gives_the_same_answer(manager: SkillManager, tool: str) -> None:
    expected = by_library(manager, tool, GOOD[tool])

    answers = {door.__name__: door(manager, tool, GOOD[tool]) for door in DOORS}

    assert not expected[0], expected
    assert answers == dict.fromkeys(answers, expected)


def by_script(manager: SkillManager, tool: str, arguments: Any) -> Answer:
    pytest.importorskip("bashkit")
    from skillpouch.shell.scripted_tool import ScriptedTool

    given = {"given": json.dumps(arguments)}
    ran = ScriptedTool.over(manager).execute_sync(f"{tool} --stdin-json < /in/given", files=given)
    return ran.is_error, ran.stderr if ran.is_error else ran.stdout.removesuffix("\n")


@pytest.mark.parametrize("door", [by_library, by_script, *DOORS], ids=lambda door: door.__name__)
def test_every_door_refuses_what_a_tool_did_not_promise(
    door: Door, tmp_path: Path, write_skill: WriteSkill
) -> None:
    takes = {"type": "object", "properties": {"n": {}}}
    promise = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tool = {"name": "count", "description": "Count.", "script": "scripts/count.py"}
    tools = json.dumps([tool | {"parameters": takes, "outputSchema": promise}])
    script = "def handler(args):\n    return {'n': args['n']}\n"
    write_skill("sums", files={"tools.json": tools, "scripts/count.py": script})
    manager = SkillManager(tmp_path / "skills", workspace=tmp_path)

    kept = door(manager, "sums.count", {"n": 3})
    broken, said = door(manager, "sums.count", {"n": "three"})

    assert kept == (False, '{"n": 3}')
    assert broken
    assert "the answer does not fit the tool's output schema: n: " in said


@pytest.mark.timeout(300)
def test_every_door_knows_an_argument_by_its_flag_and_runs_commands_for_a_skill(
    tmp_path: Path, write_skill: WriteSkill
) -> None:
    script = (
        '"""Convert."""\nimport argparse\np = argparse.ArgumentParser()\n'
        'p.add_argument("--in", "-i", dest="input_file")\nprint(p.parse_args().input_file)\n'
    )
    write_skill("sums", files={"scripts/convert.py": script})
    manager = SkillManager(tmp_path / "skills", workspace=tmp_path, builtins=True)
    doors = (by_library, by_script, *DOORS)
    command = {"skill": "sums", "command": "python scripts/convert.py -i a"}

    named = {door.__name__: door(manager, "sums.convert", {"in": "a"}) for door in doors}
    ran = {
        door.__name__: door(manager, "run_for_skill", command)
        for door in doors
        if door is not by_script  # where commands are `pouch.…`
    }

    assert named == dict.fromkeys(named, (False, "a"))
    assert ran == dict.fromkeys(ran, (False, "a"))


# What JSON can spell and few can read: a number beyond all, and very many levels.
ODD = {"number": "1e999", "levels": "[" * 300 + "]" * 300, "both": '{"n": [-1e999]}'}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", ODD)
def test_a_value_that_few_can_read_is_text_at_every_door(
    case: str, tmp_path: Path, write_skill: WriteSkill
) -> None:
    write_skill("odd", files={"scripts/odd.py": f'"""Odd."""\nprint({ODD[case]!r})\n'})
    manager = SkillManager(tmp_path / "skills", workspace=tmp_path)

    answers = {
        door.__name__: door(manager, "odd.odd", {}) for door in (by_library, by_script, *DOORS)
    }

    assert answers == dict.fromkeys(answers, (False, ODD[case]))


# It reads its input in a way that nobody sees by reading the script.
SECRETIVE = 'import sys\nprint(getattr(sys, "std" + "in").read(), getattr(sys, "ar" + "gv")[1:])\n'
GIVEN: list[tuple[dict[str, Any], str]] = [
    ({}, "{} []"),
    ({"data": "World"}, "\"World\" ['World']"),
    ({"data": {"a": [1]}}, '{"a": [1]} []'),
]


@pytest.mark.timeout(300)
def test_every_door_takes_data_for_a_script_that_reads_no_input(
    tmp_path: Path, write_skill: WriteSkill
) -> None:
    write_skill("quiet", files={"scripts/go.py": SECRETIVE})
    manager = SkillManager(tmp_path / "skills", workspace=tmp_path)
    doors = (by_library, by_script, *DOORS)

    for arguments, expected in GIVEN:
        answers = {door.__name__: door(manager, "quiet.go", arguments) for door in doors}
        assert answers == dict.fromkeys(answers, (False, expected))
    refused = {door.__name__: door(manager, "quiet.go", {"other": 1}) for door in doors}

    assert {name for name, (failed, text) in refused.items() if failed and "other" in text} == {
        *refused
    }


def test_every_door_shows_no_parameter_of_a_script_that_reads_no_input(
    tmp_path: Path, write_skill: WriteSkill
) -> None:
    from skillpouch.integrations.anthropic import anthropic_tools
    from skillpouch.integrations.openai import openai_tools

    write_skill("quiet", files={"scripts/go.py": SECRETIVE})
    manager = SkillManager(tmp_path / "skills", workspace=tmp_path)
    nothing = {"type": "object", "properties": {}, "additionalProperties": False}

    assert manager.get_tool("quiet.go").input_schema == nothing
    assert [each["input_schema"] for each in anthropic_tools(manager)] == [nothing]
    shown = [each["function"]["parameters"] for each in openai_tools(manager)]
    assert shown == [{**nothing, "required": []}]  # as the strict mode of OpenAI wants it
    assert [each.args for each in create_langchain_tools(manager, skills="none")] == [{}]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("case", BAD)
def test_every_door_tells_the_same_trouble(manager: SkillManager, case: str) -> None:
    tool, arguments = BAD[case]
    failed, trouble = by_library(manager, tool, arguments)
    # A terminal is somebody to ask, if not here: why nobody said yes differs.
    said = trouble.strip().splitlines()[-1].partition("; ")[0]

    answers = {door.__name__: door(manager, tool, arguments) for door in DOORS}

    assert failed
    assert {name for name, (is_error, text) in answers.items() if is_error and said in text} == {
        *answers
    }


def by_grpc(manager: SkillManager, tool: str, arguments: Any) -> Answer:
    """Say what a program that follows the documentation tells its model."""
    pytest.importorskip("grpc")
    import grpc
    from google.rpc.error_details_pb2 import ErrorInfo

    from skillpouch.servers.grpc import GrpcServer
    from tests.servers.grpc.serving import call, connected, rich_status

    async def ask() -> Answer:
        async with connected(GrpcServer(manager, watch=False)) as stub:
            try:
                result = await call(stub, tool, arguments)
            except grpc.aio.AioRpcError as error:
                info = ErrorInfo()
                rich_status(error).details[0].Unpack(info)
                return True, f"{error.details()}\nhint: {info.metadata.get('advice')}"
        return result.is_error, result.content

    return asyncio.run(ask())


@pytest.mark.parametrize(
    "door", [by_script, by_grpc, *DOORS[1:]], ids=lambda door: door.__name__.removeprefix("by_")
)
def test_a_model_is_told_what_it_can_do_and_no_command_of_people(
    door: Door, tmp_path: Path, write_skill: WriteSkill
) -> None:
    asks = "metadata: {skillpouch: {requires: {env: [API_KEY]}}}\n"
    script = {"scripts/go.py": "print(1)\n"}
    write_skill("keyed", f"name: keyed\ndescription: Asks.\n{asks}", files=script)
    manager = SkillManager(tmp_path / "skills", workspace=tmp_path)

    failed, said = door(manager, "keyed.go", {})

    assert failed
    assert "it needs the secret API_KEY" in said
    assert (
        "hint: only the user can allow it: tell them what it needs, and continue without it" in said
    )
    assert "skillpouch trust" not in said
