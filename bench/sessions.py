"""What a thousand sessions cost: memory, time to begin, to use a skill, to call, to end."""

import argparse
import asyncio
import gc
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillpouch import SessionManager

SKILL = """---
name: greeter
description: Greets people.
tools:
  - name: greet
    description: Greet somebody by name
    backend:
      type: script
      interpreter: python3
      script: |
        import json, os
        print("Hello", json.loads(os.environ["TOOL_ARGS"])["who"], "from {session}")
    parameters:
      type: object
      properties:
        who: {{type: string}}
      required: [who]
---
"""


def resident() -> float:
    """Return the memory of this process in megabytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def milliseconds(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    middle = statistics.median(ordered) * 1000
    late = ordered[int(len(ordered) * 0.99)] * 1000
    return f"{middle:8.2f} ms median {late:8.2f} ms at the 99th"


async def timed(each: list, work: Callable[[str], Awaitable[object]]) -> list[float]:
    took = []
    for one in each:
        started = time.perf_counter()
        await work(one)
        took.append(time.perf_counter() - started)
    return took


async def measure(count: int, calls: int) -> None:
    from skillpouch import SessionManager

    manager = SessionManager(builtins=True, define_tools=True)
    names = [f"session-{number}" for number in range(count)]
    await manager.create_session("first")  # so that what all share is not counted
    await manager.use_skill("first", "greeter", SKILL.format(session="first"))
    await manager.execute("first", "greet", {"who": "Ada"})
    gc.collect()
    base = resident()
    print(f"create        {milliseconds(await timed(names, manager.create_session))}")

    async def same(name: str) -> None:
        await manager.use_skill(name, "greeter", SKILL.format(session="everywhere"))

    async def own(name: str) -> None:
        await manager.use_skill(name, "greeter", SKILL.format(session=name))

    print(f"same skill    {milliseconds(await timed(names, same))}")
    report(base, count, "all use one text")
    print(f"own skill     {milliseconds(await timed(names, own))}")
    report(base, count, "each uses its own")
    await call(manager, names, calls)
    report(base, count, f"{calls} of them have called")
    await again(names)
    print(f"destroy       {milliseconds(await timed(names, manager.destroy_session))}")
    await manager.destroy_session("first")


async def call(manager: "SessionManager", names: list[str], calls: int) -> None:
    async def greet(name: str) -> None:
        result = await manager.execute(name, "greet", {"who": "Ada"})
        assert result.content == f"Hello Ada from {name}", result

    print(f"first call    {milliseconds(await timed(names[:calls], greet))}")
    few = [names[number % 4] for number in range(calls)]
    await timed(few[:8], greet)
    print(f"later calls   {milliseconds(await timed(few, greet))}")


async def again(names: list[str]) -> None:
    """Begin once more, as after a restart: every session is found and its skills are read."""
    from skillpouch import SessionManager

    restarted = SessionManager(builtins=True, define_tools=True)
    print(f"after restart {milliseconds(await timed(names, restarted.definitions))}")
    await restarted.close()


def report(base: float, count: int, what: str) -> None:
    gc.collect()
    more = resident() - base
    print(f"memory        {more:8.1f} MB more, {more / count * 1000:.0f} kB a session ({what})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--calls", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = folder
        for name in ("CACHE", "CONFIG", "DATA", "STATE"):
            os.environ[f"XDG_{name}_HOME"] = f"{folder}/{name.lower()}"
        print(f"{arguments.sessions} sessions, with Skillpouch's own tools and define_tool")
        asyncio.run(measure(arguments.sessions, arguments.calls))
        left = [path for path in Path(folder).rglob("*") if path.is_file()]
        print("left          ", sorted(path.name for path in left))


if __name__ == "__main__":
    main()
