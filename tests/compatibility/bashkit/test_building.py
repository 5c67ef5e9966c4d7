"""Bashkit: how a scripted tool is built, and what it says about itself."""

import json

import pytest
from jsonschema_rs import validator_for

from skillpouch import ScriptedTool, SkillpouchError, ToolArgs, ToolDef
from skillpouch.shell.limits import ExecutionLimits
from tests.compatibility.bashkit.shop import schema, shop

pytestmark = pytest.mark.slow

# "Example output", to the letter.
SYSTEM_PROMPT = """\
# api_name

Input: {"commands": "<bash script>"}
Output: {stdout, stderr, exit_code}

## Available tool commands

- `get_user`: Fetch user by ID
  Usage: `get_user --id <integer>`
- `list_orders`: List orders for user
  Usage: `list_orders --user_id <integer>`

## Tips

- Pass arguments as `--key value` or `--key=value` flags
- Pipe tool output through `jq` for JSON processing
- Use variables to pass data between tool calls
"""


def nothing(_args: ToolArgs) -> str:
    return ""


def api() -> ScriptedTool:
    return (
        ScriptedTool.builder("api_name")
        .tool(ToolDef("get_user", "Fetch user by ID").with_schema(schema(id="integer")), nothing)
        .tool(
            ToolDef("list_orders", "List orders for user").with_schema(schema(user_id="integer")),
            nothing,
        )
        .build()
    )


def test_the_system_prompt_is_that_of_the_seed() -> None:
    assert api().system_prompt() == SYSTEM_PROMPT


def test_the_builder_example_of_the_seed_runs() -> None:
    def get_user(args: ToolArgs) -> str:
        user_id = args.param_i64("id")
        if user_id is None:
            raise ValueError("missing --id")
        return f'{{"id":{user_id}}}\n'

    tool = (
        ScriptedTool.builder("api_name")
        .short_description("...")
        .tool(ToolDef("get_user", "Fetch user by ID").with_schema(schema(id="integer")), get_user)
        .env("API_KEY", "...")
        .limits(ExecutionLimits(max_commands=500))
        .build()
    )

    ran = tool.execute_sync("get_user --id 42")
    failed = tool.execute_sync("get_user")

    assert (ran.stdout, ran.stderr, ran.exit_code) == ('{"id":42}\n', "", 0)
    assert failed.exit_code == 1
    assert "missing --id" in failed.stderr


def test_a_built_tool_has_the_name_and_description_it_was_given() -> None:
    tool = shop()

    assert tool.name == "ecommerce_api"
    assert "Users, orders, stock and discounts of a shop" in tool.description


def test_a_tool_without_a_description_gets_one() -> None:
    tool = ScriptedTool.builder("bare").build()

    assert tool.description.strip()
    assert tool.system_prompt().startswith("# bare\n\nInput: ")


def test_the_input_schema_takes_one_text_of_commands() -> None:
    found = validator_for(shop().input_schema())

    assert found.is_valid({"commands": "get_user --id 1"})
    assert not found.is_valid({})
    assert not found.is_valid({"commands": 1})


def test_the_output_schema_fits_what_comes_out() -> None:
    tool = shop()
    ran = tool.execute_sync("get_user --id 1")
    answer = {"stdout": ran.stdout, "stderr": ran.stderr, "exit_code": ran.exit_code}

    assert set(answer) <= set(tool.output_schema()["properties"])
    assert validator_for(tool.output_schema()["properties"]["exit_code"]).is_valid(0)


def test_help_names_every_command() -> None:
    text = shop().help()

    for name in ("get_user", "list_orders", "get_inventory", "create_discount"):
        assert name in text


def test_a_schema_is_rendered_as_usage_and_its_absence_as_none() -> None:
    text = shop().system_prompt()

    assert "  Usage: `create_discount --user_id <integer> --percent <number>`\n" in text
    assert "Usage: `upper" not in text


@pytest.mark.parametrize("name", ["if", "eval", "help", "discover", "pmap", "result", "a b", ""])
def test_a_name_that_no_script_could_call_is_refused(name: str) -> None:
    with pytest.raises(SkillpouchError):
        ScriptedTool.builder("api").tool(ToolDef(name, "x"), nothing).build()


def test_two_tools_cannot_have_one_name() -> None:
    builder = ScriptedTool.builder("api").tool(ToolDef("a", "x"), nothing)

    with pytest.raises(SkillpouchError):
        builder.tool(ToolDef("a", "y"), nothing).build()


def test_a_definition_is_json_all_through() -> None:
    tool = shop()

    assert json.loads(json.dumps([tool.input_schema(), tool.output_schema()]))
