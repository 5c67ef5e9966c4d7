"""What gRPC adds to a call: the same confined Python handler from the library and over the wire.

Target: at most 1.5 ms at the median. `--many N` adds N calls at concurrency 64, and what the server
has in memory before and after.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import grpc

from skillpouch import SkillManager
from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.servers.grpc.v1.skillpouch_pb2_grpc import SkillpouchStub

HANDLER = 'def handler(args: dict) -> dict:\n    return {"said": args["text"]}\n'
TARGET_MS = 1.5
AT_ONCE = 64

Call = Callable[[int], Awaitable[object]]


def write_skill(root: Path) -> None:
    scripts = root / "skills/demo/scripts"
    scripts.mkdir(parents=True)
    (root / "workspace").mkdir()
    (scripts.parent / "SKILL.md").write_text("---\nname: demo\ndescription: Echoes.\n---\n")
    (scripts / "echo.py").write_text(HANDLER)


def start(root: Path) -> tuple[subprocess.Popen[str], str]:
    words = ["--listen", "127.0.0.1:0", "--most-per-session", str(AT_ONCE), "--log", "json"]
    words += ["--root", str(root / "skills"), "--workspace", str(root / "workspace")]
    server = subprocess.Popen(
        [sys.executable, "-m", "skillpouch", "serve", "grpc", *words],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stderr is not None
    return server, json.loads(server.stderr.readline())["message"].split()[-1]


async def timed(call: Call, number: int) -> float:
    started = time.perf_counter()
    await call(number)
    return (time.perf_counter() - started) * 1000


async def compare(library: Call, wire: Call, nothing: Call, rounds: int) -> None:
    calls = (library, wire, nothing)
    for number in range(50):
        for call in calls:
            await call(number)
    # In turn, so that whatever else the machine does meets all of them.
    took = [[await timed(call, number) for call in calls] for number in range(rounds)]
    own, over, empty = (statistics.median(column) for column in zip(*took, strict=True))
    added = over - own
    print(f"gRPC, no tool      {empty:8.2f} ms median: the wire alone")
    print(f"library call       {own:8.2f} ms median")
    print(f"gRPC unary call    {over:8.2f} ms median")
    verdict = "ok" if added <= TARGET_MS else "MISSED"
    print(f"gRPC adds          {added:8.2f} ms median, target {TARGET_MS} ms: {verdict}")


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def load(wire: Call, total: int) -> None:
    numbers = iter(range(total))

    async def work() -> None:
        for number in numbers:
            await wire(number)

    started = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    took = time.perf_counter() - started
    print(f"{total} calls, {AT_ONCE} at once: {total / took:.0f} a second, all answered rightly")


async def measure(root: Path, rounds: int, many: int) -> None:
    manager = SkillManager(root / "skills", workspace=root / "workspace")
    server, address = start(root)
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            stub = SkillpouchStub(channel)

            async def wire(number: int) -> None:
                text = json.dumps({"text": f"n{number}"})
                answer = await stub.ExecuteTool(
                    pb.ExecuteToolRequest(tool="demo.echo", args_json=text)
                )
                assert json.loads(answer.result.structured_json) == {"said": f"n{number}"}

            def library(number: int) -> Awaitable[object]:
                return manager.acall("demo.echo", {"text": f"n{number}"})

            def nothing(number: int) -> Awaitable[object]:
                found: Awaitable[object] = stub.Cancel(pb.CancelRequest(call_id=f"n{number}"))
                return found

            await compare(library, wire, nothing, rounds)
            if many:
                await load(wire, many // 10)
                before = resident_mb(server.pid)
                await load(wire, many)
                after = resident_mb(server.pid)
                print(f"server memory      {before:.1f} MB, then {after:.1f} MB")
    finally:
        server.terminate()
        server.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=500)
    parser.add_argument("--many", type=int, default=2_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name in ("CONFIG", "STATE", "CACHE", "DATA"):
            os.environ[f"XDG_{name}_HOME"] = f"{folder}/{name.lower()}"
        root = Path(folder).resolve()
        write_skill(root)
        asyncio.run(measure(root, arguments.rounds, arguments.many))


if __name__ == "__main__":
    main()
