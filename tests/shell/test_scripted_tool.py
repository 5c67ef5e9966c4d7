"""What scripts can do beyond the document, and what they cannot: limits, states, files, people."""

import asyncio
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from skillpouch import (
    Policy,
    ScriptedTool,
    SkillManager,
    ToolArgs,
    ToolDef,
    ToolExecutor,
    ToolRegistry,
)
from skillpouch.environment import state_directory
from skillpouch.errors import MissingExtraError
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.policy import Question, Rule
from skillpouch.shell.builder import EngineKind, ScriptedToolBuilder
from skillpouch.shell.call_log import ScriptEvent
from skillpouch.shell.engine import Cancellation
from skillpouch.shell.errors import CommandNameError, StateTokenError, ToolError
from skillpouch.shell.limits import ExecutionLimits
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

INTEGER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
ENGINES: tuple[EngineKind, ...] = ("worker", "inproc")

Build = Callable[..., ScriptedToolBuilder]


def get_user(args: ToolArgs) -> dict[str, object]:
    number = args.param_i64("id") or 0
    if number > 100:
        raise ToolError(f"no user {number}", code=4, hint="ids end at 100")
    return {"id": number, "name": f"user {number}"}


def numbered(number: str, _args: ToolArgs) -> str:
    return number


def builder(engine: EngineKind = "worker") -> ScriptedToolBuilder:
    return ScriptedTool.builder("api", engine).tool(
        ToolDef("get_user", "Fetch a user").with_schema(INTEGER).with_effects("read"), get_user
    )


@pytest.fixture(params=ENGINES)
def tool(request: pytest.FixtureRequest) -> ScriptedTool:
    return builder(request.param).build()


def test_a_tool_error_is_an_exit_code_and_a_hint(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("get_user --id 101 || echo $?")

    assert ran.stdout == "4\n"
    assert ran.stderr == "get_user: no user 101\nhint: ids end at 100\n"


def test_an_exception_shows_its_words_and_not_where_it_happened() -> None:
    def broken(_args: ToolArgs) -> str:
        raise RuntimeError("the database is asleep")

    ran = builder().tool(ToolDef("broken", "Fails"), broken).build().execute_sync("broken")

    assert (ran.stderr, ran.exit_code) == ("broken: the database is asleep\n", 1)


def test_pmap_keeps_the_order_and_reports_what_failed(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("printf '3\\n101\\n1\\n' | pmap -j 3 get_user --id {} | jq -c .id")
    failed = tool.execute_sync("printf '3\\n101\\n1\\n' | pmap get_user")

    assert ran.stdout == "3\n1\n"
    assert failed.exit_code == 1
    assert failed.stderr.endswith("pmap: 1 of 3 failed: item 2\n")


def test_pmap_takes_json_and_fields_of_it(tool: ScriptedTool) -> None:
    script = """
        echo '[{"n": 1}, {"n": 2}]' | pmap get_user --id {.n} | jq -c .id
        echo '[{"id": 3}]' | pmap get_user | jq -c .id
        printf '{"n": 4}\\n' | pmap get_user {.n} | jq -c .id
    """

    assert tool.execute_sync(script).stdout == "1\n2\n3\n4\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("", 2, "it needs a tool"),
        ("-j 0 get_user", 2, "is not an option"),
        ("get_usr {}", 127, "did you mean get_user?"),
        ("get_user {.x}", 2, "an item has no 'x'"),
    ],
)
def test_pmap_says_what_it_does_not_understand(
    tool: ScriptedTool, words: str, code: int, said: str
) -> None:
    ran = tool.execute_sync(f"echo 1 | pmap {words}")

    assert ran.exit_code == code
    assert said in ran.stderr


async def test_pmap_runs_as_many_at_once_as_it_is_told() -> None:
    together = asyncio.Barrier(20)

    async def meet(_args: ToolArgs) -> str:
        async with asyncio.timeout(60):
            await together.wait()
        return "met"

    tool = builder().tool(ToolDef("meet", "Meets"), meet).build()

    ran = await tool.execute("seq 20 | pmap -j 20 meet --n {}")

    assert ran.stdout == "met\n" * 20


@pytest.mark.parametrize("engine", ENGINES)
def test_plain_functions_run_side_by_side_under_pmap(engine: EngineKind) -> None:
    together = threading.Barrier(4)

    def meet(_args: ToolArgs) -> str:
        together.wait(60)
        return "met"

    tool = builder(engine).tool(ToolDef("meet", "Meets"), meet).build()

    assert tool.execute_sync("seq 4 | pmap -j 4 meet --n {}").stdout == "met\n" * 4


@pytest.mark.parametrize("redirect", ["", "2>/dev/null"])
def test_dropped_jobs_are_a_limit_that_names_pmap(redirect: str) -> None:
    async def slow(_args: ToolArgs) -> str:
        await asyncio.sleep(0.3)
        return "x"

    tool = builder().tool(ToolDef("slow", "Waits"), slow).build()

    ran = tool.execute_sync(f"{{ for i in $(seq 70); do slow & done; wait; }} {redirect}")
    few = tool.execute_sync("for i in $(seq 64); do slow & done; wait")

    assert ran.status == "limit"
    assert "pmap" in ran.stderr
    assert (few.status, few.stdout) == ("ok", "x\n" * 64)


def test_a_budget_of_a_tool_and_of_the_script_are_limits() -> None:
    per_tool = builder().limits(ExecutionLimits(budgets={"get_user": 2})).build()
    in_all = builder().limits(ExecutionLimits(max_tool_calls=3)).build()
    script = "for i in 1 2 3 4; do get_user --id $i | jq .id; done"

    few, some = per_tool.execute_sync(script), in_all.execute_sync(script)

    assert (few.status, few.stdout) == ("limit", "1\n2\n")
    assert "may call get_user 2 times" in few.stderr
    assert (some.status, some.stdout) == ("limit", "1\n2\n3\n")
    assert [call.outcome for call in some.calls] == ["ok", "ok", "ok", "limit"]


@pytest.mark.parametrize(
    ("limits", "script"),
    [
        (ExecutionLimits(max_commands=50), "while true; do :; done"),
        (ExecutionLimits(max_loop_iterations=5), "for ((i = 0; i < 9; i++)); do :; done"),
        (ExecutionLimits(shell_bytes=100_000), "x=a; while true; do x=$x$x; done"),
    ],
)
def test_a_limit_keeps_what_was_printed(limits: ExecutionLimits, script: str) -> None:
    ran = builder().limits(limits).build().execute_sync(f"echo before; {script}")

    assert (ran.status, ran.stdout) == ("limit", "before\n")


@pytest.mark.promise("script-5")
def test_a_state_of_another_tool_or_a_changed_one_is_refused(tool: ScriptedTool) -> None:
    token = tool.execute_sync("x=1", keep_state=True).state
    assert token is not None
    changed = ("A" if token[60] != "A" else "B").join((token[:60], token[61:]))

    for state in (
        changed,
        "",
        "no token",
        builder().build().execute_sync(":", keep_state=True).state,
    ):
        with pytest.raises(StateTokenError):
            tool.execute_sync("echo $x", state=state)


def test_a_key_lets_another_process_go_on() -> None:
    first, second = (builder().state_key(b"k" * 32).build() for _ in range(2))

    state = first.execute_sync("x=5; echo a > /out/a", keep_state=True).state
    ran = second.execute_sync("echo $x > /out/b", state=state)

    assert [(file.path, file.data) for file in ran.artifacts] == [("b", b"5\n")]


def test_files_come_in_and_go_out(tool: ScriptedTool) -> None:
    ran = tool.execute_sync(
        "mkdir /out/d; cp /in/a /out/d/b; wc -c < /in/a; echo x > /in/a",
        files={"a": bytes(range(256))},
    )

    assert ran.stdout == "256\n"
    assert "read-only" in ran.stderr
    assert {file.path: file.data for file in ran.artifacts} == {"d/b": bytes(range(256))}


def test_a_dry_run_reads_and_records_the_rest() -> None:
    calls: list[object] = []
    change = ToolDef("change", "Changes").with_schema(INTEGER).with_effects("write")
    tool = builder().tool(change, calls.append).build()

    ran = tool.execute_sync("get_user --id 1 | jq .id; change --id 2; change", dry_run=True)

    assert calls == []
    assert ran.stdout == "1\n"
    assert [(call.tool, dict(call.params), call.outcome) for call in ran.calls] == [
        ("get_user", {"id": 1}, "ok"),
        ("change", {"id": 2}, "dry_run"),
        ("change", {}, "invalid"),
    ]


async def test_an_analysis_runs_nothing_and_says_what_would(tool: ScriptedTool) -> None:
    found = await tool.analyze("get_user --id 1 | jq .name > /out/name; xargs -P 4 echo")
    wrong = await tool.analyze("if then")

    assert (found.tools, found.effects, found.writes) == (("get_user",), ("read",), ("/out/name",))
    assert not found.opaque
    assert "pmap" in found.notes[0]
    assert wrong.error.startswith("parse error")


@pytest.mark.timeout(120)
@pytest.mark.promise("script-4")
async def test_the_clock_stops_while_somebody_is_asked() -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def approve(_question: Question) -> bool:
        asked.set()
        await answer.wait()
        return True

    ask = Policy(rules=[Rule(verdict="ask", tools=["get_user"])])
    limits = ExecutionLimits(timeout_seconds=6.0)
    tool = builder().policy(ask, approve).limits(limits).build()

    running = asyncio.ensure_future(tool.execute("get_user --id 1 | jq .id"))
    await asked.wait()
    await asyncio.sleep(7)  # longer than the script has: this is what is tested
    answer.set()
    ran = await running

    assert (ran.status, ran.stdout) == ("ok", "1\n")


async def test_a_cancellation_keeps_what_was_printed(tool: ScriptedTool) -> None:
    cancellation = Cancellation()

    def watch(event: ScriptEvent) -> None:
        if event.kind == "output":
            cancellation.cancel()

    ran = await tool.execute(
        "echo a; sleep 600; echo b", on_status=watch, cancellation=cancellation
    )

    assert (ran.status, ran.exit_code, ran.stdout) == ("cancelled", 130, "a\n")


async def test_events_tell_the_story_in_order(tool: ScriptedTool) -> None:
    events: list[tuple[str, str]] = []

    def watch(event: ScriptEvent) -> None:
        events.append((event.kind, event.call.outcome if event.call else event.stdout))

    await tool.execute("get_user --id 1 | jq .id", on_status=watch)
    await asyncio.sleep(0)

    assert [kind for kind, _ in events] == [
        *("started", "call_started", "call_ended", "output", "ended")
    ]


async def test_a_watcher_that_fails_does_no_harm(tool: ScriptedTool) -> None:
    def watch(_event: ScriptEvent) -> None:
        raise RuntimeError("not interested")

    assert (await tool.execute("echo a", on_status=watch)).stdout == "a\n"


@pytest.mark.parametrize(
    "name", ["if", "eval", "help", "pmap", "a b", "a;b", "$x", "", "-x", "a/b"]
)
def test_a_name_that_no_script_could_call_is_refused(name: str) -> None:
    with pytest.raises(CommandNameError):
        builder().tool(ToolDef(name, "x"), get_user)


def test_two_commands_of_one_name_are_refused() -> None:
    with pytest.raises(CommandNameError):
        builder().tool(ToolDef("get_user", "x"), get_user)


def test_five_hundred_commands_are_all_there_when_they_are_named_late() -> None:
    many = ScriptedTool.builder("api")
    for number in range(500):
        many.tool(ToolDef(f"get_{number}", "x"), partial(numbered, str(number)))
    tool = many.build()

    ran = tool.execute_sync('get_7; for i in 8 9; do get_$i; done; x=get_; eval "${x}10"')
    typo = tool.execute_sync("gett_7")

    assert ran.stdout == "7\n8\n9\n10\n"
    assert "get_7" in typo.stderr


def test_a_missing_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bashkit", None)

    with pytest.raises(MissingExtraError) as caught:
        ScriptedTool.builder("api").build()

    assert caught.value.hint.startswith("pip install 'bashkit>=")


def test_a_script_is_a_tool_among_others() -> None:
    registry = ToolRegistry()
    registry.register(builder().build())

    result = ToolExecutor(registry).execute_sync(
        "api", {"commands": "get_user --id 1 | result; echo done"}
    )
    failed = ToolExecutor(registry).execute_sync("api", {"commands": "echo half; exit 3"})

    assert (result.outcome, result.content) == ("ok", "done")
    assert result.structured == {"id": 1, "name": "user 1"}
    assert (failed.outcome, failed.exit_code) == ("failed", 3)
    assert failed.content == "half\nexit code 3"


def test_nested_scripts_are_on_record_below_each_other() -> None:
    inner = builder().journal(True).build()

    def call_inner(_args: ToolArgs) -> str:
        return inner.execute_sync("get_user --id 1 | jq .id").stdout

    outer = ScriptedTool.builder("outer").journal(True).tool(ToolDef("dig", "Digs"), call_inner)

    assert outer.build().execute_sync("dig").stdout == "1\n"
    with JournalReader(state_directory()) as reader:
        calls = reader.newest(Query(), 9)
    names = {call.id: call.tool for call in calls}
    made_by = [(call.tool, names.get(call.parent or 0)) for call in calls]
    assert made_by == [("outer", None), ("dig", "outer"), ("api", "dig"), ("get_user", "api")]


@pytest.fixture
def manager(tmp_path: Path, write_skill: WriteSkill) -> SkillManager:
    big = "print('x' * 299_999 + 'y')"
    write_skill("big", files={"scripts/print.py": big, "notes/a.txt": "for the skill\n"})
    write_skill("other", files={"b.txt": "of the other\n"})
    (tmp_path / "skills/big/link.txt").symlink_to("/etc/passwd")
    (tmp_path / "work").mkdir()
    return SkillManager(tmp_path / "skills", workspace=tmp_path / "work", builtins=True)


def test_a_pipe_gets_all_that_a_skill_printed(manager: SkillManager) -> None:
    ran = ScriptedTool.over(manager).execute_sync("big.print | wc -c; big.print | tail -c 2")

    assert ran.stdout == "300001\ny\n"


@pytest.mark.parametrize("ends_with", [0, 3])
def test_what_a_call_was_refused_is_said_beside_its_output(
    write_skill: WriteSkill, tmp_path: Path, ends_with: int
) -> None:
    fetch = (
        "import sys, urllib.request\n"
        "try:\n    urllib.request.urlopen('http://api.example.com')\n"
        "except OSError as error:\n    print(error, file=sys.stderr)\n"
        f"print('no results')\nsys.exit({ends_with})\n"
    )
    home = write_skill("demo", files={"scripts/fetch.py": fetch})
    (tmp_path / "work").mkdir()
    manager = SkillManager(home.parent, workspace=tmp_path / "work")

    ran = ScriptedTool.over(manager).execute_sync("demo.fetch")
    called = manager.call("demo.fetch")

    assert (ran.stdout, ran.exit_code) == ("no results\n", ends_with)
    assert len(called.notes) == 1
    assert ran.stderr == f"{called.stderr}{called.notes[0]}\n"


def test_skillpouchs_own_tools_have_names_of_their_own(manager: SkillManager) -> None:
    script = "pouch.write --file_path a.txt --content hello && pouch.read --file_path a.txt"

    ran = ScriptedTool.over(manager).execute_sync(script)

    assert ran.exit_code == 0, ran.stderr
    assert "hello" in ran.stdout


@pytest.mark.promise("script-2")
def test_files_of_skills_can_be_read_and_links_lead_nowhere(manager: SkillManager) -> None:
    tool = ScriptedTool.over(manager)

    ran = tool.execute_sync("cat /skills/big/notes/a.txt; cat /skills/big/link.txt; ls /skills")
    both = tool.execute_sync("cat /skills/*/*.txt; echo x > /skills/other/b.txt")

    assert ran.stdout.splitlines()[0] == "for the skill"
    assert "root:" not in ran.stdout
    assert both.stdout == "of the other\n"
    assert "read-only" in both.stderr


async def test_options_of_one_script_reach_no_script_that_its_approver_runs() -> None:
    written: list[str] = []
    registry = ToolRegistry()
    beside = ToolExecutor(registry, policy=Policy(), journal=False)
    inner: list[str] = []

    async def approve(question: Question) -> bool:
        if question.tool == "api" and not inner:
            commands = "write; cat /in/f"
            inner.append((await beside.execute("api", {"commands": commands})).stdout)
        return True

    asks = Policy(rules=[Rule(verdict="ask", tools=["api"], name="scripts")])
    tool = (
        ScriptedTool.builder("api", "inproc")
        .journal(False)
        .policy(asks, approve)
        .tool(ToolDef("write", "Write"), lambda _args: written.append("x"))
        .build()
    )
    registry.register(tool)

    outer = await tool.execute("write; cat /in/f", files={"f": "mine\n"}, dry_run=True)

    assert (outer.stdout, written) == ("mine\n", ["x"])
    assert "mine" not in inner[0]
