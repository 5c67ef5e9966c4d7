"""Scripts that a blocked thread waits for without a loop: they end as those of a loop do."""

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from skillpouch import ScriptedTool, ToolArgs, ToolDef
from skillpouch.runtime.timers import clocks_stopped
from skillpouch.shell.builder import ScriptedToolBuilder
from skillpouch.shell.inproc_engine import InprocEngine

pytestmark = pytest.mark.slow

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def say(args: ToolArgs) -> str:
    return f"{args.param_i64('n')}"


def builder() -> ScriptedToolBuilder:
    definition = ToolDef("say", "Say").with_schema(SCHEMA)
    return ScriptedTool.builder("api", "inproc").journal(False).tool(definition, say)


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the scripts that a thread waited for; the others ran on a loop."""
    found: list[str] = []
    begin = InprocEngine.begin

    def note(self: InprocEngine, job: object, tell: object) -> object:
        found.append(job.order.script)  # type: ignore[attr-defined]  # it is a Job
        return begin(self, job, tell)  # type: ignore[arg-type]  # as above

    monkeypatch.setattr(InprocEngine, "begin", note)
    return found


def test_a_script_of_plain_functions_needs_no_loop(began: list[str]) -> None:
    ran = builder().build().execute_sync("say --n 1; say --n 2 | cat; exit 3")

    assert (ran.status, ran.exit_code, ran.stdout) == ("failed", 3, "1\n2\n")
    assert (len(began), [call.outcome for call in ran.calls]) == (1, ["ok", "ok"])


@pytest.mark.parametrize("script", ["seq 2 | pmap say --n {}", "say --n 1 & wait", "eval 'say'"])
def test_a_script_that_may_wait_does_so_on_a_loop(script: str) -> None:
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


def test_a_command_that_the_text_does_not_name_is_answered_too(began: list[str]) -> None:
    script = "echo 5 > /tmp/n; find /tmp/n -exec pm''ap -i /tmp/n say --n 5 ';'; find /tmp/n"

    ran = builder().build().execute_sync(script)

    assert (ran.stdout[-7:], ran.status, len(began)) == ("/tmp/n\n", "ok", 1)


def test_ctrl_c_ends_a_script(began: list[str]) -> None:
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

    assert (len(began), tool.execute_sync("say --n 2").stdout) == (1, "2\n")


def test_an_engine_that_does_not_hear_is_not_waited_for(began: list[str]) -> None:
    ran = builder().build().execute_sync("echo half; jq -n 'last(range(100000000))'", timeout=0.3)

    assert (ran.status, ran.exit_code, ran.stdout) == ("timed_out", 124, "half\n")
    assert len(began) == 1


def test_too_much_output_ends_a_script(began: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillpouch.shell.script_run._MOST_PRINTED_BYTES", 1000)

    ran = builder().build().execute_sync("for i in $(seq 5000); do echo $i; done; say --n 1")

    assert (ran.status, ran.calls, len(began)) == ("limit", (), 1)


def test_the_time_of_people_does_not_count(began: list[str]) -> None:
    def ask(_: ToolArgs) -> str:
        with clocks_stopped():
            threading.Event().wait(0.6)
        return "yes"

    ran = builder().tool(ToolDef("ask", "Ask"), ask).build().execute_sync("ask", timeout=0.4)

    assert (ran.status, ran.stdout, len(began)) == ("ok", "yes\n", 1)


def test_time_goes_on_after_somebody_was_asked(began: list[str]) -> None:
    over = threading.Event()

    def ask(_: ToolArgs) -> str:
        with clocks_stopped():
            threading.Event().wait(0.3)
        over.wait(60)
        return "late"

    ran = builder().tool(ToolDef("ask", "Ask"), ask).build().execute_sync("ask", timeout=0.2)
    over.set()

    assert (ran.status, len(began)) == ("timed_out", 1)


async def test_in_a_running_loop_and_from_a_callback_it_is_the_same(began: list[str]) -> None:
    inner = builder().build()
    outer = builder().tool(
        ToolDef("nest", "Nest"), lambda _: inner.execute_sync("say --n 7").stdout
    )

    ran = outer.build().execute_sync("nest")

    assert (ran.stdout, len(began)) == ("7\n", 2)


def test_callbacks_see_the_variables_of_who_called(began: list[str]) -> None:
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    tool = builder().tool(ToolDef("who", "Who"), lambda _: who.get()).build()
    token = who.set("Ada")

    ran = tool.execute_sync("who")

    who.reset(token)
    assert (ran.stdout, len(began)) == ("Ada\n", 1)


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
        try:
            await asyncio.sleep(60)
        finally:
            said.append("ends")
        return "late"

    ran = builder().tool(ToolDef("slow", "Wait"), slow).build().execute_sync("slow", timeout=0.2)

    assert (ran.status, said) == ("timed_out", ["ends"])


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
