"""Scripts and callbacks that mean harm, second part: every command is answered, nothing is told."""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from skillpouch import ScriptedTool, SkillManager, SkillpouchError, ToolArgs, ToolDef
from skillpouch.shell.builder import EngineKind
from skillpouch.shell.errors import ToolError
from skillpouch.shell.limits import ExecutionLimits
from skillpouch.shell.script_run import notes_on, refusal_of
from tests.conftest import WriteSkill

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PARAMETERS = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": {"type": "string"},
        "admin": {"type": "boolean"},
    },
}


class Unspeakable(Exception):  # noqa: N818 - what it is called is not the point
    def __str__(self) -> str:
        raise RuntimeError("no words")


def show(args: ToolArgs) -> str:
    return json.dumps(args.params, sort_keys=True)


def built(
    *,
    engine: EngineKind = "worker",
    limits: ExecutionLimits | None = None,
    **callbacks: Callable[[ToolArgs], Any],
) -> ScriptedTool:
    builder = ScriptedTool.builder("api", engine=engine)
    builder = builder.tool(ToolDef("show", "Show").with_schema(PARAMETERS), show)
    for name, callback in callbacks.items():
        builder = builder.tool(ToolDef(name, "Do it"), callback)
    return builder.limits(limits or ExecutionLimits()).build()


@pytest.fixture(scope="module")
def tool() -> Iterator[ScriptedTool]:
    tool = built()
    yield tool
    tool.close()


def raising(error: BaseException) -> Callable[[ToolArgs], Any]:
    def callback(_args: ToolArgs) -> str:
        raise error

    return callback


def raising_later(error: BaseException) -> Callable[[ToolArgs], Any]:
    async def callback(_args: ToolArgs) -> str:
        await asyncio.sleep(0)
        raise error

    return callback


@pytest.mark.parametrize("engine", ["worker", "inproc"])
@pytest.mark.parametrize("how", [raising, raising_later])
def test_whatever_a_callback_raises_is_an_exit_code_and_the_script_goes_on(
    engine: EngineKind, how: Callable[[BaseException], Callable[[ToolArgs], Any]]
) -> None:
    errors = {
        "cancelled": asyncio.CancelledError(),
        "interrupted": KeyboardInterrupt(),
        "left": SystemExit(3),
        "closed": GeneratorExit(),
        "unspeakable": Unspeakable(),
        "late": TimeoutError(),
        "oddly": ToolError("odd", code="x"),  # type: ignore[arg-type]  # a host's mistake
    }
    callbacks: dict[str, Any] = {name: how(error) for name, error in errors.items()}
    tool = built(engine=engine, **callbacks)

    ran = tool.execute_sync("".join(f"{name}; echo $?\n" for name in errors))

    assert (ran.status, ran.stdout) == ("ok", "1\n" * len(errors)), ran.stderr
    assert [call.outcome for call in ran.calls] == ["failed"] * len(errors)
    assert tool.execute_sync("show").stdout == "{}\n"


@pytest.mark.parametrize("engine", ["worker", "inproc"])
def test_whatever_a_callback_returns_is_text_in_the_script(engine: EngineKind) -> None:
    async def later() -> str:
        return "awaited"

    tool = built(
        engine=engine,
        nothing=lambda _: None,
        half=lambda _: "a\ud800b",
        number=lambda _: float("nan"),
        deep=lambda _: json.loads("[" * 900 + "]" * 900),
        promised=lambda _: later(),
        odd=lambda _: object,
    )

    ran = tool.execute_sync("nothing; half; number; deep | wc -c; promised; odd > /dev/null")

    assert (ran.status, ran.exit_code) == ("ok", 0), ran.stderr
    nothing_else = ran.stdout.split()
    assert nothing_else == ["a?b", "nan", str(1801), "awaited"]


def test_a_value_that_cannot_even_be_shown_is_an_error_without_its_words() -> None:
    class Silent:
        def __str__(self) -> str:
            raise ValueError("hunter2")

    ran = built(silent=lambda _: Silent()).execute_sync("silent || echo failed")

    assert ran.stdout == "failed\n"
    assert "hunter2" not in ran.stderr


@pytest.mark.promise("flag-2")
def test_the_error_of_a_callback_tells_no_secret_of_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_API_KEY", "correct-horse-battery")
    key = "ghp_" + "aB3dE6gH9jK2mN5pQ8rS1tU4vW7xY0zA2cD4"  # the shape of a key of GitHub
    tool = built(
        known=raising(ValueError("401 for https://x/?key=correct-horse-battery")),
        shaped=raising(ToolError(f"bad token {key}", hint=f"not {key}")),
    )

    ran = tool.execute_sync("known; shaped; known 2>&1 | cat; shaped 2>&1 | base64 -w0 | cat")

    said = ran.stdout + ran.stderr + repr(ran.calls)
    assert "correct-horse" not in said
    assert key not in said
    assert "401 for https://x/?key=[redacted SHOP_API_KEY]" in ran.stderr


@pytest.mark.promise("flag-1")
def test_a_line_for_pmap_never_becomes_a_flag(tool: ScriptedTool) -> None:
    lines = "printf -- '--admin\\n-x\\n--json\\n--help\\n'"
    named = tool.execute_sync(f"{lines} | pmap show --name {{}}")
    bare = tool.execute_sync(f"{lines} | pmap show --id 1")

    expected = ["--admin", "-x", "--json", "--help"]
    assert [json.loads(line)["name"] for line in named.stdout.splitlines()] == expected
    assert [json.loads(line) for line in bare.stdout.splitlines()] == [
        {"id": 1, "name": word} for word in expected
    ]


def test_only_line_ends_end_a_line_for_pmap(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("printf 'a\\fb\\u2028c\\rd\\ne' | pmap show --name {}")

    names = [json.loads(line)["name"] for line in ran.stdout.splitlines()]
    assert names == ["a\fb\u2028c\rd", "e"]


@pytest.mark.parametrize("jobs", ["0", "-1", "x", "", "٣x", "9" * 5_000, "1e9"])
def test_pmap_with_an_absurd_number_is_answered(tool: ScriptedTool, jobs: str) -> None:
    ran = tool.execute_sync(f"seq 2 | pmap -j '{jobs}' show --id {{}}; echo $?")

    assert ran.stdout == "2\n"


def test_more_items_than_pmap_takes_are_refused_before_the_first_call(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("seq 20000 | pmap show --id {}")

    assert (ran.exit_code, ran.calls) == (2, ())


@pytest.mark.parametrize(
    "script",
    [
        ": " + "xargs " * 100_000,
        'coproc "' + '\\"' * 100_000,
        "coproc " + "a'\"\\" * 100_000,
        "coproc" + "\n" * 200_000,
        "coproc " + " #" * 100_000,
        "coproc" + ";" * 200_000,
        "xargs" + " \t" * 100_000,
    ],
    ids=["xargs", "quotes", "mixed", "lines", "hashes", "ends", "spaces"],
)
def test_a_long_script_is_looked_at_once(script: str) -> None:
    # Quadratic patterns took minutes for these, on the loop of the host.
    assert isinstance(refusal_of(script), str)
    assert isinstance(notes_on(script), tuple)


@pytest.mark.parametrize(
    ("script", "refused"),
    [
        ("coproc ping", True),
        ("x=1; coproc ping", True),
        ("if true; then\n  coproc ping\nfi", True),
        ("echo 'a; coproc ping'", False),
        ('echo "it is\n coproc time"', False),
        ("# coproc x\ntrue", False),
        ("echo coproc", False),
    ],
)
def test_a_coproc_is_told_from_a_word(script: str, refused: bool) -> None:
    assert bool(refusal_of(script)) is refused


@pytest.mark.parametrize(
    ("script", "noted"),
    [
        ("ls | xargs -P 4 cat", True),
        ("ls | xargs -n1 --max-procs=2 cat", True),
        ("ls | xargs cat; tar -P x", False),
        ("xargsx -P 4", False),
    ],
)
def test_a_parallel_xargs_is_told_from_others(script: str, noted: bool) -> None:
    assert bool(notes_on(script)) is noted


def test_a_megabyte_in_one_word_and_ten_thousand_words_reach_a_tool(tool: ScriptedTool) -> None:
    long = tool.execute_sync(f"show --name {'x' * 1_000_000} | wc -c")
    many = tool.execute_sync("show " + "--name x " * 10_000)

    assert long.stdout == "1000013\n"
    assert json.loads(many.stdout) == {"name": "x"}


@pytest.mark.parametrize("script", [None, 5, b"echo hi", ["echo"], "echo \ud800"])
def test_what_is_no_text_is_refused_as_an_argument(tool: ScriptedTool, script: Any) -> None:
    with pytest.raises(SkillpouchError) as caught:
        tool.execute_sync(script)

    assert caught.value.code == "invalid_arguments"


@pytest.mark.parametrize("state", ["", "abc", "é", "A" * 100_000, "\0"])
def test_a_state_that_is_none_of_ours_is_refused(tool: ScriptedTool, state: str) -> None:
    with pytest.raises(SkillpouchError) as caught:
        tool.execute_sync("echo hi", state=state)

    assert caught.value.code == "state_token"


@pytest.mark.parametrize(
    "value", ["[" * 100_000, "NaN", '{"a": Infinity}', '"\\ud800"', "9" * 5_000, "'", "{} {}"]
)
def test_a_result_that_is_no_json_sets_nothing(tool: ScriptedTool, value: str) -> None:
    ran = tool.execute_sync("result < /in/value; echo $?", files={"value": value})

    assert (ran.stdout, ran.result) == ("2\n", None)


def test_a_script_cannot_forge_what_the_worker_says(tool: ScriptedTool) -> None:
    forged = json.dumps({"type": "done", "exit_code": 0})
    frame = f"\\x00\\x00\\x00\\x{len(forged):02x}"

    ran = tool.execute_sync(f"printf '{frame}{forged}'; printf '{frame}{forged}' >&2; exit 9")

    assert (ran.status, ran.exit_code) == ("failed", 9)
    assert forged in ran.stdout


@pytest.mark.parametrize(
    "script",
    [
        "show() { echo fake; }; command show --id 7",
        "alias show='echo fake'; \\show --id 7",
        "enable -n show; unset -f show; hash -r; PATH=; IFS=-; show --id=7",
        "bash -c 'show --id 7'",
        "eval 'ev\"\"al show --id 7'",
        "f() { trap 'show --id 7' RETURN; }; f; show --id 7 > /dev/null",
        "echo --id=7 | xargs show",
        "find /tmp -maxdepth 0 -exec show --id 7 ';'",
        "echo 7 | pmap show --id {}",
        "(show --id 7) & wait",
        "timeout 50 show --id 7",
        "echo 'show --id 7' > /tmp/s; . /tmp/s",
    ],
)
def test_however_a_tool_is_called_the_call_is_on_record(tool: ScriptedTool, script: str) -> None:
    ran = tool.execute_sync(script)

    outcomes = {(call.tool, call.params.get("id"), call.outcome) for call in ran.calls}
    # A script may hide a tool from itself; what it cannot do is call one unseen.
    assert outcomes == {("show", 7, "ok")}


@pytest.mark.parametrize(
    "script",
    [
        "kill -9 $$; kill -9 1; kill -9 -1; kill -9 $PPID; kill -STOP $PPID",
        "exec show; show",
        "trap '' TERM INT HUP EXIT; kill -TERM $$",
        "ulimit -v 1; ulimit -n 0; show",
        "set -o noexec; show",
        "rm -rf / 2>/dev/null; show",
        "rm -rf /out; echo x > /out; show",
        "exec 0<&- 1>&- 2>&-; show",
        "cd /; rmdir *; show",
        "export PATH=/nowhere LD_PRELOAD=/x.so BASH_ENV=/x; show",
        "readonly PATH IFS HOME; show",
        "disown -a; fg; bg; wait 99999; jobs; show",
    ],
)
def test_a_script_harms_nobody_but_itself(tool: ScriptedTool, script: str) -> None:
    own = os.getpid()

    ran = tool.execute_sync(script)
    after = tool.execute_sync("show --id 1")

    assert ran.status in {"ok", "failed"}, ran
    assert (after.status, json.loads(after.stdout)) == ("ok", {"id": 1})
    assert os.getpid() == own


def test_files_that_cannot_leave_do_not(tool: ScriptedTool) -> None:
    script = """
        echo 1 > /out/../out/a; mkdir -p /out/d; echo 2 > /out/d/../b
        ln -s /etc/passwd /out/link; ln -s /out /out/loop
        echo 3 > '/out/..b'; echo 4 > '/out/-rf'
    """

    ran = tool.execute_sync(script)

    assert sorted(each.path for each in ran.artifacts) == ["-rf", "..b", "a", "b"]


def test_a_flood_of_files_is_counted_and_not_carried(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("for i in {1..900}; do echo $i > /out/f$i; done")

    assert len(ran.artifacts) + ran.artifacts_left_out == 900
    assert len(ran.artifacts) <= 200


def test_a_flood_of_errors_is_cut(tool: ScriptedTool) -> None:
    ran = tool.execute_sync(
        "x=$(head -c 900000 /dev/zero | tr '\\0' e); for i in 1 2 3; do "
        'echo "$x" >&2; done; echo end'
    )

    assert ran.stdout == "end\n"
    assert ran.truncated
    assert len(ran.stderr) <= 1024 * 1024 + 200


def test_a_loop_of_calls_ends_at_its_limit() -> None:
    limits = ExecutionLimits(max_tool_calls=50, max_commands=2_000)

    ran = built(limits=limits).execute_sync("while :; do show; done")

    assert ran.status == "limit"
    assert sum(call.outcome == "ok" for call in ran.calls) == 50


async def test_a_storm_of_cancellations_leaves_a_tool_that_works() -> None:
    tool = built()
    scripts = ["sleep 100", "while :; do show; done", "seq 50 | pmap show --id {}; sleep 100"]
    tasks = [asyncio.ensure_future(tool.execute(scripts[n % 3])) for n in range(9)]
    for n, task in enumerate(tasks):
        await asyncio.sleep(0.01 * (n % 4))
        task.cancel()

    ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert {type(each) for each in ended} <= {asyncio.CancelledError}
    assert (await tool.execute("show --id 1")).stdout == '{"id": 1}\n'
    tool.close()


def test_nobody_hears_of_a_terminal_escape_through_a_registered_tool() -> None:
    from skillpouch import ToolExecutor, ToolRegistry

    registry = ToolRegistry()
    registry.register(built())

    result = ToolExecutor(registry).execute_sync(
        "api", {"commands": "printf 'a\\033[31mred\\u202eb\\n'"}
    )

    assert result.content == "aredb"


@pytest.fixture
def writer(tmp_path: Path, write_skill: WriteSkill) -> ScriptedTool:
    program = "import pathlib, sys\npathlib.Path('ran').write_text('x')\nprint('wrote')\n"
    write_skill("disk", files={"scripts/write.py": program})
    (tmp_path / "work").mkdir()
    return ScriptedTool.over(SkillManager(tmp_path / "skills", workspace=tmp_path / "work"))


@pytest.mark.skipif(sys.platform != "linux", reason="a skill is confined on Linux only")
@pytest.mark.parametrize(
    "script",
    [
        "disk.write",
        "command disk.write; bash -c disk.write; eval disk.write",
        "seq 3 | pmap disk.write {}",
        "(disk.write &) ; wait; timeout 9 disk.write; echo x | xargs disk.write",
        "trap disk.write EXIT",
        "f() { disk.write; }; f; $(echo disk.write)",
    ],
)
def test_no_way_of_calling_gets_past_a_dry_run(
    writer: ScriptedTool, script: str, tmp_path: Path
) -> None:
    ran = writer.execute_sync(script, dry_run=True)

    assert not (tmp_path / "work" / "ran").exists()
    assert {call.outcome for call in ran.calls} == {"dry_run"}
    assert "wrote" not in ran.stdout


def test_much_output_beside_many_calls_arrives_whole(tool: ScriptedTool) -> None:
    script = """
        x=$(head -c 200000 /dev/zero | tr '\\0' o)
        for i in 1 2 3 4; do echo "$x"; echo "$x" >&2; show --id $i & done
        wait; echo end
    """

    for _ in range(8):
        ran = tool.execute_sync(script)

        assert (ran.status, len(ran.calls)) == ("ok", 4), ran.stderr[-200:]
        assert ran.stderr == ("o" * 200_000 + "\n") * 4
        assert ran.stdout.count("o" * 200_000 + "\n") == 4
        assert ran.stdout.endswith("end\n")
