"""Scripts in the host's own process: plain functions and what waits, limits, Ctrl-C."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from skillpouch import Policy, ScriptedTool, ToolArgs, ToolDef
from skillpouch.policy.approval import Question, asking
from skillpouch.policy.rules import Rule
from skillpouch.runtime.timers import clocks_stopped
from skillpouch.shell.builder import ScriptedToolBuilder

pytestmark = pytest.mark.slow

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def say(args: ToolArgs) -> str:
    return f"{args.param_i64('n')}"


def builder() -> ScriptedToolBuilder:
    definition = ToolDef("say", "Say").with_schema(SCHEMA)
    return ScriptedTool.builder("api", "inproc").journal(False).tool(definition, say)


def test_a_script_of_plain_functions_runs_to_its_end() -> None:
    ran = builder().build().execute_sync("say --n 1; say --n 2 | cat; exit 3")

    assert (ran.status, ran.exit_code, ran.stdout) == ("failed", 3, "1\n2\n")
    assert [call.outcome for call in ran.calls] == ["ok", "ok"]


@pytest.mark.parametrize("script", ["seq 2 | pmap say --n {}", "say --n 1 & wait", "eval 'say'"])
def test_a_script_that_may_wait_runs_to_its_end(script: str) -> None:
    ran = builder().build().execute_sync(script)

    assert (ran.status, {call.outcome for call in ran.calls}) == ("ok", {"ok"})


@pytest.mark.parametrize("script", ["sleep 60", "slow", "slow & wait"])
def test_a_script_that_waits_ends_when_its_time_is_over(script: str) -> None:
    async def slow(_: ToolArgs) -> str:
        await asyncio.sleep(60)
        return "late"

    tool = builder().tool(ToolDef("slow", "Wait"), slow).build()

    ran = tool.execute_sync(f"echo half; {script}", timeout=0.2)

    assert (ran.status, ran.stdout) == ("timed_out", "half\n")


def test_a_command_that_the_text_does_not_name_is_answered_too() -> None:
    script = "echo 5 > /tmp/n; find /tmp/n -exec pm''ap -i /tmp/n say --n 5 ';'; find /tmp/n"

    ran = builder().build().execute_sync(script)

    assert (ran.stdout[-7:], ran.status) == ("/tmp/n\n", "ok")


def test_ctrl_c_ends_a_script() -> None:
    main = threading.main_thread().ident
    assert main is not None
    over = threading.Event()

    def interrupt(_: ToolArgs) -> str:
        signal.pthread_kill(main, signal.SIGINT)
        over.wait(60)
        return "late"

    tool = builder().journal(True).tool(ToolDef("interrupt", "Interrupt"), interrupt).build()

    with pytest.raises(KeyboardInterrupt):
        tool.execute_sync("interrupt; say --n 1")
    over.set()

    assert tool.execute_sync("say --n 2").stdout == "2\n"


def test_an_engine_that_does_not_hear_is_not_waited_for() -> None:
    ran = builder().build().execute_sync("echo half; jq -n 'last(range(100000000))'", timeout=0.3)

    assert (ran.status, ran.exit_code, ran.stdout) == ("timed_out", 124, "half\n")


def test_too_much_output_ends_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillpouch.shell.script_run._MOST_PRINTED_BYTES", 1000)

    ran = builder().build().execute_sync("for i in $(seq 5000); do echo $i; done; say --n 1")

    assert (ran.status, ran.calls) == ("limit", ())


def test_the_time_of_people_does_not_count() -> None:
    def ask(_: ToolArgs) -> str:
        with clocks_stopped():
            threading.Event().wait(0.6)
        return "yes"

    ran = builder().tool(ToolDef("ask", "Ask"), ask).build().execute_sync("ask", timeout=0.4)

    assert (ran.status, ran.stdout) == ("ok", "yes\n")


def test_time_goes_on_after_somebody_was_asked() -> None:
    over = threading.Event()

    def ask(_: ToolArgs) -> str:
        with clocks_stopped():
            threading.Event().wait(0.3)
        over.wait(60)
        return "late"

    ran = builder().tool(ToolDef("ask", "Ask"), ask).build().execute_sync("ask", timeout=0.2)
    over.set()

    assert ran.status == "timed_out"


async def test_in_a_running_loop_and_from_a_callback_it_is_the_same() -> None:
    inner = builder().build()
    outer = builder().tool(
        ToolDef("nest", "Nest"), lambda _: inner.execute_sync("say --n 7").stdout
    )

    ran = outer.build().execute_sync("nest")

    assert ran.stdout == "7\n"


def test_callbacks_see_the_variables_of_who_called() -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    tool = builder().tool(ToolDef("who", "Who"), lambda _: who.get()).build()
    token = who.set("Ada")

    ran = tool.execute_sync("who")

    who.reset(token)
    assert ran.stdout == "Ada\n"


def test_on_the_loop_of_skillpouch_itself_it_is_refused() -> None:
    inner = builder().build()

    async def blocks(_: ToolArgs) -> str:
        with pytest.raises(RuntimeError, match="a blocking call on Skillpouch's own loop"):
            inner.execute_sync("say --n 7")
        return "refused"

    tool = builder().tool(ToolDef("blocks", "Block"), blocks).build()

    assert tool.execute_sync("blocks").stdout == "refused\n"


def test_a_callback_that_waits_has_begun_to_end_when_the_time_is_over() -> None:
    said: list[str] = []

    async def slow(_: ToolArgs) -> str:
        said.append("begins")
        try:
            await asyncio.sleep(60)
        finally:
            said.append("ends")
        return "late"

    ran = builder().tool(ToolDef("slow", "Wait"), slow).build().execute_sync("slow", timeout=0.2)

    # On a busy machine the time may be over before the callback has begun.
    assert (ran.status, said) in [("timed_out", ["begins", "ends"]), ("timed_out", [])]


INTERRUPTED = """
import os, random, signal, sqlite3, sys, threading, time
from skillpouch import ScriptedTool, ToolDef

tool = ScriptedTool.builder("api", "inproc").tool(ToolDef("say", "Say"), lambda _: "x").build()
wanted, rounds = threading.Event(), 60
def interrupt():
    for _ in range(rounds):
        wanted.wait()
        wanted.clear()
        time.sleep(random.random() * 0.02)
        os.kill(os.getpid(), signal.SIGINT)
tool.execute_sync("say")
threading.Thread(target=interrupt, daemon=True).start()
seen = 0
while seen < rounds:
    try:
        wanted.set()
        while True:
            tool.execute_sync(random.choice(("say", "say; say", "while true; do say; done")))
    except KeyboardInterrupt:
        seen += 1
print(tool.execute_sync("say").stdout, end="")
(file,) = [f"{at}/{name}" for at, _, names in os.walk(sys.argv[1]) for name in names
           if name.endswith(".sqlite3")]
def open_calls():
    query = "SELECT count(*) FROM calls WHERE ended_ns IS NULL"
    return sqlite3.connect(file).execute(query).fetchone()[0]
deadline = time.monotonic() + 10
while open_calls() and time.monotonic() < deadline:
    time.sleep(0.05)  # a command that was running when its script was cancelled
print(open_calls())
"""


def test_whenever_ctrl_c_comes_every_call_ends_on_record(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        cwd=work,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert ran.stdout == "x\n0\n", ran.stderr


_ASKS = Policy(rules=[Rule(verdict="ask", tools=["say"])])


@pytest.mark.parametrize("answer", [True, False])
async def test_whoever_is_asked_for_one_request_decides_about_plain_functions(
    *, answer: bool
) -> None:
    tool = builder().policy(_ASKS).build()

    async def approve(_: Question) -> bool:
        await asyncio.sleep(0)
        return answer

    with asking(approve):
        ran = await tool.execute("say --n 1")

    assert (ran.status, ran.stdout) == (("ok", "1\n") if answer else ("denied", ""))


def test_a_policy_leaves_the_approver_that_was_named_before_it() -> None:
    tool = builder().approver(lambda _: True).policy(_ASKS).build()

    assert tool.execute_sync("say --n 1").stdout == "1\n"
