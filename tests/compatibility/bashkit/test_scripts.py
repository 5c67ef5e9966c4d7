"""Bashkit: flags, pipes, variables, loops, errors and status, in both engines."""

import json
from pathlib import Path
from typing import Any

import pytest

from skillpouch import ScriptedTool, ToolArgs, ToolDef
from tests.compatibility.bashkit.shop import Engine, schema, shop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


@pytest.fixture(params=["worker", "inproc"], scope="module")
def tool(request: pytest.FixtureRequest) -> ScriptedTool:
    engine: Engine = request.param
    return shop(engine)


def output(tool: ScriptedTool, script: str) -> str:
    ran = tool.execute_sync(script)
    assert (ran.status, ran.exit_code) == ("ok", 0), ran.stderr
    return ran.stdout


# The table of "Flag parsing".
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--id 42", {"id": 42}),
        ("--id=42", {"id": 42}),
        ("--verbose", {"verbose": True}),
        ("--name Alice", {"name": "Alice"}),
        ("--name 'Alice and Bob'", {"name": "Alice and Bob"}),
        ("--share 0.5 --verbose --id=-3", {"share": 0.5, "verbose": True, "id": -3}),
        ("--other 42", {"other": "42"}),
        ("", {}),
    ],
)
def test_flags_become_typed_parameters(
    tool: ScriptedTool, words: str, expected: dict[str, Any]
) -> None:
    assert json.loads(output(tool, f"echo_params {words}")) == expected


def test_an_empty_script_does_nothing(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("")

    assert (ran.stdout, ran.stderr, ran.exit_code, ran.status) == ("", "", 0, "ok")


def test_a_single_tool_is_a_command(tool: ScriptedTool) -> None:
    assert json.loads(output(tool, "get_user --id 1"))["name"] == "Alice"


def test_a_tool_is_piped_through_jq(tool: ScriptedTool) -> None:
    assert output(tool, "get_user --id 1 | jq -r .name") == "Alice\n"


def test_variables_carry_data_from_one_tool_to_the_next(tool: ScriptedTool) -> None:
    script = """
        user=$(get_user --id 1)
        name=$(echo "$user" | jq -r .name)
        id=$(echo "$user" | jq .id)
        total=$(list_orders --user_id $id | jq 'map(.total) | add')
        echo "$name spent $total"
    """

    assert output(tool, script) == "Alice spent 100\n"


def test_four_tools_in_one_script_make_one_answer(tool: ScriptedTool) -> None:
    script = """
        for sku in $(list_orders --user_id 1 | jq -r '.[].sku'); do
            stock=$(get_inventory --sku $sku | jq .in_stock)
            if [ "$stock" -eq 0 ]; then
                create_discount --user_id 1 --percent 10 | jq -r .code
            else
                echo "$sku: $stock"
            fi
        done
    """

    assert output(tool, script) == "pen: 3\nSAVE10\n"


def test_a_tool_that_fails_sets_the_exit_code_and_says_why(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("get_user --id 9")

    assert (ran.stdout, ran.exit_code, ran.status) == ("", 1, "failed")
    assert "no user 9" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_failure_can_be_caught(tool: ScriptedTool) -> None:
    assert output(tool, "get_user --id 9 2>/dev/null || echo fallback") == "fallback\n"
    assert output(tool, "if get_user --id 9 2>/dev/null; then echo y; else echo n; fi") == "n\n"


def test_output_before_a_failure_is_kept(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("set -e; echo before; get_user --id 9; echo after")

    assert (ran.stdout, ran.exit_code) == ("before\n", 1)


def test_standard_input_reaches_the_tool(tool: ScriptedTool) -> None:
    assert output(tool, "echo hello | upper") == "HELLO\n"
    assert output(tool, "upper <<< 'from here'") == "FROM HERE\n"
    assert output(tool, "get_user --id 1 | jq -r .name | upper") == "ALICE\n"


def test_without_a_pipe_there_is_no_standard_input(tool: ScriptedTool) -> None:
    assert output(tool, "upper").strip() == "NOTHING"


def test_loops_call_tools(tool: ScriptedTool) -> None:
    assert output(tool, "for i in 1 2; do get_user --id $i | jq -r .name; done") == "Alice\nBob\n"


def test_conditions_look_at_what_tools_say(tool: ScriptedTool) -> None:
    script = """
        tier=$(get_user --id 1 | jq -r .tier)
        if [ "$tier" = gold ]; then echo thanks; else echo welcome; fi
    """

    assert output(tool, script) == "thanks\n"


def test_variables_given_to_the_builder_are_in_the_environment(tool: ScriptedTool) -> None:
    assert output(tool, 'echo "$STORE"') == "Skillpouch & Sons\n"


def test_a_tool_can_be_executed_many_times(tool: ScriptedTool) -> None:
    names = [output(tool, f"get_user --id {i} | jq -r .name") for i in (1, 2, 1)]

    assert names == ["Alice\n", "Bob\n", "Alice\n"]


def test_no_state_is_left_for_the_next_execution(tool: ScriptedTool) -> None:
    output(tool, "x=5; echo hi > /tmp/file; f() { echo f; }")

    assert output(tool, 'echo "[$x]"; test -e /tmp/file || echo gone') == "[]\ngone\n"
    assert tool.execute_sync("f").exit_code == 127


def test_shell_functions_here_documents_and_arithmetic_work(tool: ScriptedTool) -> None:
    script = """
        name() { get_user --id "$1" | jq -r .name; }
        cat <<END
$(name 1) and $(name 2), $((1 + 1)) users
END
    """

    assert output(tool, script) == "Alice and Bob, 2 users\n"


def test_there_is_no_host_to_reach(tool: ScriptedTool, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("of the host")

    ran = tool.execute_sync(f"cat {secret} /proc/self/environ /proc/1/environ; ls {tmp_path}")

    assert ran.stdout == ""
    for command in ("curl http://127.0.0.1/", "wget http://127.0.0.1/"):
        assert tool.execute_sync(command).exit_code != 0


async def test_a_tool_is_awaited_like_any_other() -> None:
    ran = await shop("worker").execute("get_user --id 2 | jq -r .name")

    assert (ran.stdout, ran.exit_code) == ("Bob\n", 0)


async def test_a_callback_may_return_a_value_and_may_be_awaited() -> None:
    async def numbers(args: ToolArgs) -> list[int]:
        return list(range(args.param_i64("up_to") or 0))

    tool = (
        ScriptedTool.builder("api", engine="inproc")
        .tool(ToolDef("numbers", "Count").with_schema(schema(up_to="integer")), numbers)
        .build()
    )

    ran = await tool.execute("numbers --up_to 4 | jq -c 'map(. * 2)'")

    assert ran.stdout == "[0,2,4,6]\n"
