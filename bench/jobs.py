"""What a job costs: start and wait against a direct call, memory of queued jobs, a function tool.

And what a soft limit costs a call that ends before it: the built-in `bash`, whose own limit is
longer, through OpenAI and MCP, with a soft limit and without one.

Interleaved in one run; medians and the median of the differences are compared. With `--against
DIR`, the `src` of another checkout, calls of a function tool are compared with that one, by turns.
"""

import argparse
import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from skillpouch import SkillManager
from skillpouch.integrations.long_calls import LongCallOptions
from skillpouch.integrations.openai import arun_openai_calls

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HANDLER = '"""Say ok."""\n\n\ndef handler(args):\n    return {"ok": True}\n'
GATED = (
    "#!/bin/bash\n# Wait for a file.\necho begun\nfor _ in $(seq 3000); do\n"
    "  [ -e go ] && exit 0; sleep 0.01\ndone\n"
)
FUNCTION = """
import sys, time
from skillpouch import ToolExecutor, tool

@tool
def add(a: int, b: int) -> int:
    "Add."
    return a + b

executor = ToolExecutor([add])
for _ in range(200):
    executor.execute_sync("add", {"a": 1, "b": 2})
started = time.process_time()
for _ in range(2000):
    executor.execute_sync("add", {"a": 1, "b": 2})
print((time.process_time() - started) / 2000 * 1e6)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--queued", type=int, default=1000)
    parser.add_argument("--against", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as folder:
        for name in ("STATE", "CONFIG", "CACHE", "DATA"):
            os.environ[f"XDG_{name}_HOME"] = f"{folder}/{name.lower()}"
        try:
            race(Path(folder), options.rounds)
            asyncio.run(soft_limits(Path(folder), options.rounds))
            queue(Path(folder), options.queued)
        finally:
            end_host(Path(folder))
        compare(options.against)


def manager_in(folder: Path) -> SkillManager:
    scripts, workspace = folder / "skills/s/scripts", folder / "work"
    scripts.mkdir(parents=True, exist_ok=True)
    workspace.mkdir(exist_ok=True)
    (folder / "skills/s/SKILL.md").write_text("---\nname: s\ndescription: d\n---\n")
    (scripts / "ok.py").write_text(HANDLER)
    (scripts / "gated.sh").write_text(GATED)
    return SkillManager(folder / "skills", workspace=workspace, writes="direct")


def race(folder: Path, rounds: int) -> None:
    manager = manager_in(folder)
    ways = {
        "direct": lambda: manager.call("s.ok", {}),
        "job": lambda: manager.start("s.ok", {}).result(60),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 20):
        for name in sorted(ways, reverse=bool(number % 2)):
            started = time.perf_counter()
            ways[name]()
            if number >= 20:  # the first rounds start what stays warm
                times[name].append((time.perf_counter() - started) * 1e3)
    for name, each in times.items():
        print(f"{name:<8} min {min(each):7.3f} ms   median {statistics.median(each):7.3f} ms")
    pairs = zip(times["job"], times["direct"], strict=True)
    more = statistics.median(job - direct for job, direct in pairs)
    print(f"a job takes {more:.2f} ms more at the median (target: 10 ms)")


async def soft_limits(folder: Path, rounds: int) -> None:
    """Run a command that ends at once, where it may be left after a while and where it may not."""
    manager_in(folder)
    words = {"root": str(folder / "skills"), "workspace": str(folder / "work")}
    manager = SkillManager(words["root"], workspace=words["workspace"], builtins=True)
    async with served(words) as left, served(words, "--soft-limit", "0") as never:
        arguments = {"command": "true"}
        ways: dict[str, Callable[[], Awaitable[object]]] = {
            "direct": lambda: manager.acall("bash", arguments),
            "OpenAI": lambda: asked(manager, LongCallOptions()),
            "OpenAI, no soft limit": lambda: asked(manager, LongCallOptions(soft_limit_seconds=0)),
            "MCP": lambda: left.call_tool("bash", arguments),
            "MCP, no soft limit": lambda: never.call_tool("bash", arguments),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds + 20):
            for name in sorted(ways, reverse=bool(number % 2)):
                started = time.perf_counter()
                await ways[name]()
                if number >= 20:
                    times[name].append((time.perf_counter() - started) * 1e3)
    for name, each in times.items():
        low, middle = min(each), statistics.median(each)
        print(f"bash: {name:<22} min {low:7.3f} ms   median {middle:7.3f} ms")
    for name in ("OpenAI", "MCP"):
        pairs = zip(times[name], times[f"{name}, no soft limit"], strict=True)
        more = statistics.median(one - other for one, other in pairs)
        print(f"through {name} the soft limit costs {more:.2f} ms at the median")


def served(words: dict[str, str], *more: str) -> Client:
    said = ["-m", "skillpouch", "serve", "mcp", "--builtin", *more]
    said += [word for name, value in words.items() for word in (f"--{name}", value)]
    program = StdioServerParameters(command=sys.executable, args=said, env=dict(os.environ))
    return Client(stdio_client(program))


async def asked(manager: SkillManager, options: LongCallOptions) -> object:
    function = {"name": "bash", "arguments": '{"command": "true"}'}
    call = {"id": "1", "type": "function", "function": function}
    message = {"role": "assistant", "tool_calls": [call]}
    return await arun_openai_calls(message, manager, long_calls=options)


def queue(folder: Path, count: int) -> None:
    """Queue jobs behind one that waits, and see what that costs host and caller."""
    (folder / "config/skillpouch").mkdir(parents=True, exist_ok=True)
    (folder / "config/skillpouch/policy.toml").write_text("[jobs]\nrunning = 1\n")
    end_host(folder)
    manager = manager_in(folder)
    gate = manager.start("s.gated")
    while not gate.output().data:  # until the host has loaded all that it needs for a call
        time.sleep(0.01)
    before = rss(host_of(folder)), rss(os.getpid())
    started = time.perf_counter()
    jobs = [manager.start("s.ok", {}) for _ in range(count)]
    took = time.perf_counter() - started
    host, caller = rss(host_of(folder)) - before[0], rss(os.getpid()) - before[1]
    print(
        f"{count} queued jobs cost {host / 1e6:.1f} MB in the host, {caller / 1e6:.1f} MB in the "
        f"caller (target: 20 MB), and {took / count * 1e3:.2f} ms each to start"
    )
    (folder / "config/skillpouch/policy.toml").unlink()  # an older version knows no [jobs]
    (folder / "work/go").touch()
    gate.result(60)
    for job in jobs[-3:]:
        job.result(600)


def compare(other: Path | None) -> None:
    """Call a function tool, by turns here and in another checkout, if there is one."""
    # The time of the processor: on a busy machine the rest is mostly waiting.
    paths = {"this": str(Path(__file__).parent.parent / "src")}
    paths |= {"other": str(other)} if other else {}
    found: dict[str, list[float]] = {name: [] for name in paths}
    for number in range(12):
        for name in sorted(paths, reverse=bool(number % 2)):
            ran = subprocess.run(
                [sys.executable, "-c", FUNCTION],
                env={**os.environ, "PYTHONPATH": paths[name]},
                capture_output=True,
                check=True,
            )
            found[name].append(float(ran.stdout))
    for name, each in found.items():
        low, middle = min(each), statistics.median(each)
        print(f"function tool, {name:<6} min {low:6.1f} µs   median {middle:6.1f} µs")
    if other:
        ratios = [one / two for one, two in zip(found["this"], found["other"], strict=True)]
        print(f"median of the ratios: {statistics.median(ratios):.3f}")


def host_of(folder: Path) -> int:
    return int((folder / "state/skillpouch/jobs/host.lock").read_text())


def rss(pid: int) -> int:
    words = Path(f"/proc/{pid}/statm").read_text().split()
    return int(words[1]) * os.sysconf("SC_PAGESIZE")


def end_host(folder: Path) -> None:
    try:
        pid = host_of(folder)
        os.kill(pid, signal.SIGKILL)
    except (OSError, ValueError):
        return
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.01)


if __name__ == "__main__":
    main()
