"""Bashkit and what goes beyond it: statuses, limits, parallel calls, results, finding commands."""

import asyncio
import json
import threading

import pytest

from skillpouch import ScriptedTool, ToolArgs, ToolDef
from skillpouch.shell.call_log import ScriptEvent
from skillpouch.shell.limits import ExecutionLimits
from tests.compatibility.bashkit.shop import schema, shop

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def tool() -> ScriptedTool:
    return shop("worker")


def limited(**limits: float) -> ScriptedTool:
    return (
        ScriptedTool.builder("api")
        .tool(ToolDef("ping", "Answer"), lambda _args: "pong")
        .limits(ExecutionLimits(**limits))  # type: ignore[arg-type]  # numbers of either kind
        .build()
    )


@pytest.mark.parametrize(
    ("script", "status", "exit_code"),
    [
        ("true", "ok", 0),
        ("false", "failed", 1),
        ("exit 7", "failed", 7),
        ("no_such_command", "failed", 127),
        ("if then", "syntax", 2),
        ("while true; do :; done", "limit", None),
    ],
)
def test_a_status_says_how_a_script_ended(
    tool: ScriptedTool, script: str, status: str, exit_code: int | None
) -> None:
    ran = tool.execute_sync(f"echo before\n{script}" if status != "syntax" else script)

    assert ran.status == status
    assert ran.exit_code != 0 if exit_code is None else ran.exit_code == exit_code
    assert ran.stdout == ("before\n" if status != "syntax" else "")


def test_time_is_limited_and_output_is_kept() -> None:
    ran = limited(timeout_seconds=1.0).execute_sync("echo before; sleep 600; echo after")

    assert (ran.status, ran.stdout, ran.exit_code) == ("timed_out", "before\n", 124)


def test_commands_are_limited() -> None:
    ran = limited(max_commands=20).execute_sync("echo before; for i in {1..50}; do ping; done")

    assert ran.status == "limit"
    assert ran.stdout.startswith("before\n")


def test_tool_calls_are_limited() -> None:
    ran = limited(max_tool_calls=3).execute_sync("for i in 1 2 3 4 5; do ping; done")

    assert ran.status == "limit"
    assert ran.stdout.count("pong") == 3


async def test_a_cancelled_script_calls_no_further_tool() -> None:
    started, calls = asyncio.Event(), []
    loop = asyncio.get_running_loop()

    def ping(_args: ToolArgs) -> str:
        calls.append(1)
        loop.call_soon_threadsafe(started.set)
        return "pong"

    tool = ScriptedTool.builder("api").tool(ToolDef("ping", "Answer"), ping).build()
    task = asyncio.ensure_future(tool.execute("ping; sleep 600; ping"))
    await asyncio.wait_for(started.wait(), 60)

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert calls == [1]
    assert (await tool.execute("echo next")).stdout == "next\n"


def test_pmap_calls_a_tool_for_each_line_in_order(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("printf '2\\n1\\n' | pmap -j 2 get_user --id {} | jq -r .name")

    assert (ran.stdout, ran.exit_code) == ("Bob\nAlice\n", 0)


def test_pmap_reports_what_failed_and_keeps_the_rest(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("printf '1\\n9\\n2\\n' | pmap -j 3 get_user --id {}")

    assert [json.loads(line)["name"] for line in ran.stdout.splitlines()] == ["Alice", "Bob"]
    assert "no user 9" in ran.stderr
    assert ran.exit_code != 0


def test_pmap_runs_as_many_at_once_as_it_was_told() -> None:
    together = threading.Barrier(8, timeout=90)

    def meet(_args: ToolArgs) -> str:
        together.wait()  # answers only when eight are here
        return "met"

    tool = ScriptedTool.builder("api").tool(ToolDef("meet", "Meet"), meet).build()

    ran = tool.execute_sync("seq 8 | pmap -j 8 meet --n {}")

    assert ran.stdout == "met\n" * 8, ran.stderr


def test_background_jobs_run_at_once() -> None:
    together = threading.Barrier(5, timeout=90)

    def meet(_args: ToolArgs) -> str:
        together.wait()
        return "met"

    tool = ScriptedTool.builder("api").tool(ToolDef("meet", "Meet"), meet).build()

    ran = tool.execute_sync("for i in 1 2 3 4 5; do meet & done; wait")

    assert ran.stdout == "met\n" * 5, ran.stderr


def test_more_background_jobs_than_the_engine_has_are_never_dropped_silently() -> None:
    ran = limited().execute_sync("for i in {1..100}; do ping & done; wait")

    assert ran.stdout.count("pong") == 100 or (ran.status == "limit" and "pmap" in ran.stderr)


@pytest.mark.parametrize("command", ["parallel echo ::: a b", "curl http://127.0.0.1"])
def test_what_does_not_work_says_so(tool: ScriptedTool, command: str) -> None:
    ran = tool.execute_sync(command)

    assert ran.exit_code == 126
    assert ran.stderr.strip()


def test_result_sets_a_value_beside_the_output(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("echo shown; get_user --id 1 | jq '{name}' | result")

    assert (ran.stdout, ran.result) == ("shown\n", {"name": "Alice"})
    assert tool.execute_sync("result '[1, 2]'").result == [1, 2]
    assert tool.execute_sync("echo no value").result is None


def test_a_result_that_is_no_json_is_an_error(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("echo '{oops' | result")

    assert ran.exit_code == 2
    assert "JSON" in ran.stderr


def test_each_call_is_told_with_its_arguments_and_outcome(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("get_user --id 1; get_user --id 9; list_orders --user_id 2")

    assert [(call.seq, call.tool, call.params, call.outcome) for call in ran.calls] == [
        (1, "get_user", {"id": 1}, "ok"),
        (2, "get_user", {"id": 9}, "failed"),
        (3, "list_orders", {"user_id": 2}, "ok"),
    ]
    assert all(call.duration_ms >= 0 for call in ran.calls)


def test_discover_finds_commands_by_words(tool: ScriptedTool) -> None:
    lines = tool.execute_sync("discover stock of a product").stdout.splitlines()

    assert "get_inventory" in lines[0]


def test_help_shows_one_command_or_all(tool: ScriptedTool) -> None:
    one = tool.execute_sync("help get_user").stdout

    assert "Usage: get_user --id <integer>" in one
    assert tool.execute_sync("get_user --help").stdout == one
    assert "create_discount" in tool.execute_sync("help").stdout


def test_help_for_an_unknown_command_names_the_nearest(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("help get_usr")

    assert ran.exit_code != 0
    assert "get_user" in ran.stderr


def test_an_unknown_command_names_the_nearest(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("get_usr --id 1")

    assert ran.exit_code == 127
    assert "get_user" in ran.stderr


def test_a_wrong_value_names_flag_value_and_type(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("get_user --id abc; echo $?")

    assert ran.stdout == "2\n"
    assert "--id: 'abc' is not an integer" in ran.stderr


def test_an_unknown_flag_is_kept_and_noted(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("echo_params --nam Ada")

    assert json.loads(ran.stdout) == {"nam": "Ada"}
    assert "did you mean --name?" in ran.stderr


def test_arguments_that_do_not_fit_the_schema_never_reach_the_callback() -> None:
    calls: list[ToolArgs] = []

    def get(args: ToolArgs) -> str:
        calls.append(args)
        return ""

    closed = {**schema(id="integer"), "required": ["id"], "additionalProperties": False}
    definition = ToolDef("get", "Get").with_schema(closed)
    tool = ScriptedTool.builder("api").tool(definition, get).build()

    ran = tool.execute_sync('get; get --idd 3; get --json \'{"id": "x"}\'')

    assert calls == []
    assert ran.exit_code == 2
    assert "did you mean --id?" in ran.stderr


def test_what_a_tool_gives_is_checked_against_its_output_schema() -> None:
    definition = ToolDef("count", "Count").with_output_schema({"type": "integer"})
    good = ScriptedTool.builder("api").tool(definition, lambda _args: 3).build()
    bad = ScriptedTool.builder("api").tool(definition, lambda _args: {"n": 3}).build()

    assert good.execute_sync("count").stdout == "3\n"
    assert bad.execute_sync("count").exit_code != 0


def test_a_state_carries_variables_and_files_to_the_next_run(tool: ScriptedTool) -> None:
    first = tool.execute_sync("x=5; echo hi > /tmp/note", keep_state=True)

    second = tool.execute_sync('echo "$x $(cat /tmp/note)"', state=first.state)

    assert second.stdout == "5 hi\n"


def test_files_written_under_out_come_back(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("mkdir -p /out; get_user --id 1 | jq -r .name > /out/name.txt")

    assert {each.path: each.data for each in ran.artifacts} == {"name.txt": b"Alice\n"}


async def test_scripts_run_at_the_same_time_without_mixing() -> None:
    tool = shop("worker")

    ran = await asyncio.gather(
        *(
            tool.execute(f"x={n}; get_user --id {n % 2 + 1} | jq -r .name; echo $x")
            for n in range(8)
        )
    )

    names = ("Alice", "Bob")
    assert [each.stdout for each in ran] == [f"{names[n % 2]}\n{n}\n" for n in range(8)]


async def test_status_is_told_while_a_script_runs() -> None:
    told: list[tuple[str, str]] = []

    def hear(event: ScriptEvent) -> None:
        told.append((event.kind, event.call.outcome if event.call else ""))

    await shop("worker").execute("get_user --id 1 >/dev/null; get_user --id 9", on_status=hear)

    calls = [each for each in told if each[0].startswith("call_")]
    assert (told[0][0], told[-1][0]) == ("started", "ended")
    assert [kind for kind, _ in calls] == ["call_started", "call_ended"] * 2
    assert [outcome for kind, outcome in calls if kind == "call_ended"] == ["ok", "failed"]


def test_an_agent_registers_a_built_tool_like_any_other() -> None:
    from skillpouch import ToolExecutor, ToolRegistry

    registry = ToolRegistry()
    registry.register(shop("worker"))

    result = ToolExecutor(registry).execute_sync(
        "ecommerce_api", {"commands": "get_user --id 1 | jq -r .name"}
    )

    assert result.stdout == "Alice\n"
