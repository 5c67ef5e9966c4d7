"""Arguments on their way in: words in their places, names that models can say, values as meant."""

import json
from pathlib import Path
from typing import Any

import pytest

from skillpouch import ScriptedTool, SkillManager, ToolDef, ToolExecutor, tool
from skillpouch.arguments import arguments_from_text, check_arguments
from skillpouch.errors import InvalidArgumentsError
from skillpouch.integrations.anthropic import anthropic_tools, run_anthropic_calls
from skillpouch.integrations.langchain import create_langchain_tools
from skillpouch.integrations.openai import openai_tools, run_openai_calls
from skillpouch.shell.builder import EngineKind
from skillpouch.tools import Function, Tool, definition_of
from tests.conftest import WriteSkill

SHOW = "import json, sys\nprint(json.dumps(sys.argv[1:]))\n"
MANIFEST = """\
tools:
  - name: show
    script: show.py
    description: Show the words.
    parameters:
      a: {type: string}
      b: {type: string, required: false%s}
      c: {type: string, required: false}
"""


def manager_of(write_skill: WriteSkill, default: str, script: str = SHOW) -> SkillManager:
    files = {"scripts/manifest.yml": MANIFEST % default, "scripts/show.py": script}
    return SkillManager(write_skill("words", files=files).parent)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"a": "1", "b": "2", "c": "3"}, ["1", "2", "3"]),
        ({"a": "1", "c": "3"}, ["1", "two", "3"]),
        ({"a": "1"}, ["1", "two"]),
    ],
)
def test_a_positional_of_a_manifest_that_is_left_out_is_filled_with_its_default(
    write_skill: WriteSkill, given: dict[str, str], words: list[str]
) -> None:
    manager = manager_of(write_skill, ", default: two")

    assert manager.call("words.show", given).structured == words


def test_a_positional_never_takes_the_place_of_one_that_is_left_out(
    write_skill: WriteSkill,
) -> None:
    manager = manager_of(write_skill, "")

    with pytest.raises(InvalidArgumentsError) as raised:
        manager.call("words.show", {"a": "1", "c": "3"})

    assert "'c' cannot be given without 'b'" in str(raised.value)
    assert manager.call("words.show", {"a": "1"}).structured == ["1"]


ODD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "größe": {"type": "integer", "description": "in cm"},
        "城市": {"type": "string"},
        "first name": {"type": "string"},
        "first_name": {"type": "string"},
        "x" * 80: {"type": "string"},
        "plain": {"type": "string"},
    },
    "required": ["größe", "城市"],
    "additionalProperties": False,
}
GIVEN: dict[str, Any] = {"größe": 180, "城市": "Rome", "first name": "Ada", "x" * 80: "y"}


def odd_tool() -> tuple[Tool, list[dict[str, Any]]]:
    seen: list[dict[str, Any]] = []

    def note(**given: Any) -> str:
        seen.append(given)
        return "ok"

    made = Tool(
        id="odd",
        name="odd",
        skill="",
        description="Odd.",
        input_schema=ODD,
        runs=Function(call=note),
    )
    return ToolExecutor([made]).tools[0], seen


def safe(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments as a model would say them, by the order of the properties."""
    names = dict(zip(ODD["properties"], schema["properties"], strict=True))
    return {names[name]: value for name, value in GIVEN.items()}


def shown_schemas(made: Tool) -> dict[str, dict[str, Any]]:
    pytest.importorskip("mcp")
    from skillpouch.servers.mcp.protocol import definition

    return {
        "definitions": definition_of(made)["parameters"],
        "chat": openai_tools([made])[0]["function"]["parameters"],
        "responses": openai_tools([made], api="responses", strict=False)[0]["parameters"],
        "anthropic": anthropic_tools([made])[0]["input_schema"],
        "langchain": create_langchain_tools([made])[0].args_schema,
        "mcp": definition(made, modern=True).input_schema,
    }


def test_every_model_is_shown_names_that_its_provider_takes() -> None:
    made, _ = odd_tool()

    for door, schema in shown_schemas(made).items():
        names = list(schema["properties"])
        assert len(set(names)) == len(ODD["properties"]), door
        assert [name for name in names if not _is_taken(name)] == [], door
        assert set(schema["required"]) <= set(names), door
        assert (names[3], names[5]) == ("first_name", "plain"), door  # nothing is renamed in vain
        assert schema["properties"][names[0]]["description"] == "größe: in cm", door


def _is_taken(name: str) -> bool:
    return 0 < len(name) <= 64 and all(c.isascii() and (c.isalnum() or c in "_.-") for c in name)


def test_what_a_model_says_in_a_safe_spelling_arrives_under_the_name_it_stands_for() -> None:
    made, seen = odd_tool()
    said = safe(definition_of(made)["parameters"])
    call = {"function": {"name": "odd", "arguments": json.dumps(said)}, "id": "1"}

    run_openai_calls({"role": "assistant", "tool_calls": [call]}, [made])
    run_anthropic_calls(
        {"content": [{"type": "tool_use", "id": "1", "name": "odd", "input": said}]}, [made]
    )
    create_langchain_tools([made])[0].invoke(said)
    made.invoke(said)
    made.invoke(GIVEN)  # as a program says it

    assert seen == [GIVEN] * 5


def test_one_argument_in_both_spellings_is_refused() -> None:
    made, _ = odd_tool()
    said = safe(definition_of(made)["parameters"])

    with pytest.raises(InvalidArgumentsError, match="größe is given twice"):
        check_arguments(made, {**said, "größe": 1})


UNTYPED = {"type": "object", "properties": {"data": {"description": "Any JSON"}}}
TEXT = {"type": "object", "properties": {"who": {"type": "string"}}}


def taking(schema: dict[str, Any]) -> Tool:
    runs = Function(call=print)
    return Tool(id="t", name="t", skill="", description="T.", input_schema=schema, runs=runs)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('["x"]', ["x"]),
        ('{"a": 1}', {"a": 1}),
        ("[1, 2]", [1, 2]),
        ("World", "World"),
        ("[not json", "[not json"),
    ],
)
def test_data_on_the_command_line_is_json_when_it_is_json(text: str, value: Any) -> None:
    assert arguments_from_text(taking(UNTYPED), [("data", text)]) == {"data": value}


def test_a_text_that_is_given_twice_is_an_error() -> None:
    with pytest.raises(InvalidArgumentsError, match="who is given twice, but takes one value"):
        arguments_from_text(taking(TEXT), [("who", "1"), ("who", "2")])


def test_a_list_may_be_given_word_by_word() -> None:
    schema = {"type": "object", "properties": {"who": {"type": "array"}}}

    assert arguments_from_text(taking(schema), [("who", "a"), ("who", "b")]) == {"who": ["a", "b"]}


@pytest.mark.promise("limit-1")
@pytest.mark.parametrize("size", [1_000, 100_000])
async def test_what_a_function_gives_is_bounded_as_the_output_of_a_program_is(
    size: int, tmp_path: Path
) -> None:
    @tool
    def talk() -> list[str]:
        """Talk."""
        return ["x" * 98] * size

    result = await ToolExecutor([talk], workspace=tmp_path).execute("talk")

    assert len(result.content) <= 100_100
    assert len(result.stdout) <= 100_100
    assert result.truncated
    assert result.saved[0].stat().st_size == size * 102
    assert "bytes left out" in result.content
    assert (result.structured is None) == (size > 1_000)  # a megabyte of values is kept


@pytest.mark.promise("limit-1")
@pytest.mark.parametrize("engine", ["inproc", "worker"])
async def test_what_a_scripted_tool_gives_is_bounded_too(
    engine: EngineKind, tmp_path: Path
) -> None:
    echo = ToolDef("echo_it", "Echo.")
    scripted = ScriptedTool.builder("api", engine).tool(echo, lambda _: "x" * 300_000).build()
    executor = ToolExecutor([scripted.as_tool()], workspace=tmp_path)

    result = await executor.execute("api", {"commands": "echo_it; echo_it | wc -c >&2"})
    value = await executor.execute(
        "api", {"commands": 'echo "\\"$(echo_it)$(echo_it)$(echo_it)$(echo_it)\\"" | result'}
    )

    assert result.stderr.split() == ["300001"]  # a pipe gets all of it
    assert len(result.content) <= 100_100
    assert (result.truncated, len(result.saved)) == (True, 1)
    assert (value.structured, value.exit_code) == (None, 2)
    assert "1,048,576 characters are the most" in value.content
