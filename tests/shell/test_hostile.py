"""Scripts that mean harm, or do it: the host lives, says what happened, and serves the next one."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillpouch import ScriptedTool, ToolArgs, ToolDef
from skillpouch.shell.limits import ExecutionLimits

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NESTED_JQ = "jq -n '" + "(" * 3000 + "1" + ")" * 3000 + "'"
PIPED_JQ = "jq -n '1" + " | ." * 20_000 + "'"
NEGATED_FIND = "find / " + "! " * 4000 + "-name x"
WRAPPED = "x='env '; for i in {1..12}; do x=$x$x; done; eval \"$x true\""

# Whatever stops it - a limit, the clock, its worker's memory - it is stopped, and said so.
STOPPED = {"limit", "timed_out", "crashed", "failed", "syntax"}
HARMLESS = STOPPED | {"ok"}  # survives a deep stack, or is bounded by the engine itself
SHAPES = {
    "eval that evals itself": ("x='eval $x'; eval \"$x\"", STOPPED),
    "a file that runs itself": ("echo 'bash /tmp/a' > /tmp/a; bash /tmp/a", STOPPED),
    "a function without end": ("f() { f; }; f", {"limit", "timed_out"}),
    "a chain of wrappers": (WRAPPED, HARMLESS),
    "nested jq": (NESTED_JQ, HARMLESS),
    "piped jq": (PIPED_JQ, HARMLESS),
    "jq that calls itself": ("jq -n 'def f: f | f; f'", STOPPED),
    "very deep jq values": ("jq -n 'reduce range(100000) as $i (1; [.])' | wc -c", HARMLESS),
    "jq without end": ("jq -n 'def f: f; f'", {"timed_out", "crashed", "limit", "failed"}),
    "negated find": (NEGATED_FIND, HARMLESS),
    "a fork bomb": (":() { : | : & }; :", HARMLESS),
    "a loop without end": ("while true; do :; done", {"limit", "timed_out"}),
    "a memory bomb": ("x=a; while true; do x=$x$x; done", {"limit", "timed_out"}),
    "a jq memory bomb": ("jq -n '[range(1e9)] | length'", STOPPED),
    "an array bomb": ('a=(x); while true; do a+=("${a[@]}"); done', {"limit", "timed_out"}),
    "a file bomb": ("while true; do cat /tmp/x /tmp/x > /tmp/y; mv /tmp/y /tmp/x; done", STOPPED),
    "brace bomb": ("echo {1..9}{1..9}{1..9}{1..9}{1..9}{1..9}{1..9}{1..9} | wc -c", HARMLESS),
    "a catastrophic expression": ("echo " + "a" * 64 + "! | grep -E '^(a+)+$'", {"failed"}),
    "an awk without end": ("awk 'BEGIN { while (1) x++ }'", STOPPED),
}


@pytest.fixture(scope="module")
def tool() -> Iterator[ScriptedTool]:
    limits = ExecutionLimits(max_commands=3_000)
    built = (
        ScriptedTool.builder("api")
        .tool(ToolDef("ping", "Answers"), lambda _args: "pong")
        .limits(limits)
        .build()
    )
    yield built
    built.close()


@pytest.mark.promise("script-1")
@pytest.mark.parametrize(("script", "statuses"), SHAPES.values(), ids=list(SHAPES))
def test_the_host_survives_and_the_next_script_is_served(
    tool: ScriptedTool, script: str, statuses: set[str]
) -> None:
    ran = tool.execute_sync(f"echo before\n{script}", timeout=4)
    after = tool.execute_sync("ping")

    assert ran.status in statuses, ran
    assert ran.stdout.startswith("before\n") or ran.status == "syntax"
    assert (after.status, after.stdout) == ("ok", "pong\n"), after


def test_a_flood_of_output_is_cut_and_says_so(tool: ScriptedTool) -> None:
    ran = tool.execute_sync("for i in $(seq 9); do head -c 1000000 /dev/zero | tr '\\0' a; done")

    assert ran.truncated
    assert len(ran.stdout) == 1024 * 1024


@pytest.mark.promise("script-2")
@pytest.mark.parametrize(
    "script",
    [
        "cat {secret}",
        "cat /..{secret} /../../../..{secret}",
        "ln -s {secret} /tmp/l; cat /tmp/l",
        "source {secret}",
        "mount --bind / /mnt; cat /mnt{secret}",
        "exec 3< {secret}; cat <&3",
        "python3 -c 'print(open(\"{secret}\").read())'; perl -e 'print `cat {secret}`'",
        "find / -name secret.txt -exec cat {{}} ';'",
        "cat /proc/1/root{secret} /proc/self/root{secret} /proc/self/cwd{secret}",
        "tar cf - {secret}; cp {secret} /out/; base64 {secret}; dd if={secret}",
    ],
)
def test_no_file_of_the_host_is_in_reach(tool: ScriptedTool, script: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2-of-the-host")

    ran = tool.execute_sync(script.format(secret=secret))

    assert "hunter2" not in ran.stdout + ran.stderr
    assert ran.artifacts == ()


@pytest.mark.promise("script-2")
def test_nothing_of_the_hosts_environment_is_in_reach(
    tool: ScriptedTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_TOKEN", "hunter2-of-the-host")

    ran = tool.execute_sync("env; set; export -p; cat /proc/self/environ /proc/1/environ")

    assert "hunter2" not in ran.stdout + ran.stderr


@pytest.mark.promise("script-2")
async def test_no_server_of_the_host_is_in_reach(tool: ScriptedTool) -> None:
    heard: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1))
        writer.close()

    server = await asyncio.start_server(hear, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    there = f"127.0.0.1:{port}"

    ran = await tool.execute(
        f"curl http://{there}/; wget http://{there}/; http http://{there}/\n"
        f"exec 3<>/dev/tcp/127.0.0.1/{port}; echo hi >&3; nc 127.0.0.1 {port} <<< hi"
    )
    server.close()
    await server.wait_closed()

    assert ran.status == "failed"
    assert heard == []


def workers_of(pid: int) -> list[int]:
    """Return the workers that a process has started and that are not yet gone."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            line = (entry / "cmdline").read_bytes()
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if b"shell/worker/main.py" in line and int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 60
    while not all(map(is_gone, pids)):
        assert time.monotonic() < deadline, pids
        time.sleep(0.02)


HOST = textwrap.dedent("""
    import sys, threading
    from skillpouch import ScriptedTool, ToolDef
    stuck = threading.Event()
    def wait(args):
        print("waiting", flush=True)
        stuck.wait()
    tool = ScriptedTool.builder("api").tool(ToolDef("stop", "Waits"), wait).build()
    tool.execute_sync(sys.argv[1])
""")


@pytest.mark.promise("script-3")
@pytest.mark.parametrize(
    "script", ["stop", "stop & while true; do jq -n '[range(1e5)]' > /dev/null; done"]
)
def test_a_host_that_is_killed_leaves_no_worker(script: str) -> None:
    host = subprocess.Popen([sys.executable, "-c", HOST, script], stdout=subprocess.PIPE)
    assert host.stdout is not None
    assert host.stdout.readline() == b"waiting\n"
    workers = workers_of(host.pid)

    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    host.stdout.close()

    assert workers
    wait_until_gone(workers)


@pytest.mark.promise("script-3")
def test_a_closed_tool_leaves_no_worker_but_the_spare() -> None:
    tool = ScriptedTool.builder("api").build()
    before = set(workers_of(os.getpid()))
    tool.execute_sync("echo a")
    used = set(workers_of(os.getpid())) - before

    tool.close()

    wait_until_gone([pid for pid in used if pid in _idle_of(tool)])
    assert tool.execute_sync("echo b").stdout == "b\n"


def _idle_of(tool: ScriptedTool) -> list[int]:
    engine = tool._settings.engine
    return [worker.helper.pid for worker in engine._workers._idle]  # type: ignore[attr-defined]


async def test_a_cancelled_script_is_dead_when_its_cancellation_is() -> None:
    begun = asyncio.Event()

    async def hold(_args: ToolArgs) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    tool = ScriptedTool.builder("api").tool(ToolDef("hold", "Waits"), hold).build()
    running = asyncio.ensure_future(tool.execute("hold & jq -n 'def f: f; f'"))
    await begun.wait()
    before = set(workers_of(os.getpid()))

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    gone = before - set(workers_of(os.getpid()))
    assert len(gone) == 1
    assert json.loads((await tool.execute("echo 1")).stdout) == 1
