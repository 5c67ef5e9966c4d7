"""One script of many calls against bashkit's own ScriptedTool, in turns, in one run.

The peer keeps no record of calls, so ours does not either, but in two lines that show what it adds.

`ten calls`: a loop of ten tool calls, each piped through jq. `200 calls`: as many in one script, as
a loop and as lines. `pmap`: twenty calls of 200 ms at once against one. `500 tools`: building one
tool of five hundred commands and its first script; the worker is the spare that every process of
Skillpouch keeps ready.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from bashkit.scripted import ScriptedTool as Peer

from skillpouch import ScriptedTool, ToolArgs, ToolDef
from skillpouch.shell.builder import EngineKind
from skillpouch.shell.worker_pool import prepare_spare

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}}
CALL = "get_user --id {} | jq -r .name"
LOOP = f"for i in $(seq 1 {{}}); do {CALL.format('$i')}; done"
TEN = LOOP.format(10)
TWO_HUNDRED = LOOP.format(200)
LINES = "\n".join(CALL.format(number) for number in range(1, 201))
ONE = "slow --id 1"
TWENTY = "seq 1 20 | pmap -j 20 slow --id {}"
MANY = 500
FROM_SPARE = "500 tools, worker"


def user(number: Any) -> str:
    return json.dumps({"id": number, "name": f"user {number}"}) + "\n"


def get_user(args: ToolArgs) -> str:
    return user(args.param_i64("id"))


async def slow(args: ToolArgs) -> str:
    await asyncio.sleep(0.2)
    return user(args.param_i64("id"))


def ours(engine: EngineKind, *, journal: bool = False) -> ScriptedTool:
    return (
        ScriptedTool.builder("api", engine)
        .journal(journal)
        .tool(ToolDef("get_user", "Fetch a user").with_schema(SCHEMA), get_user)
        .tool(ToolDef("slow", "Fetch a user, slowly").with_schema(SCHEMA), slow)
        .build()
    )


def peer() -> Peer:
    tool = Peer("api")
    tool.add_tool("get_user", "Fetch a user", callback=peer_user, schema=SCHEMA)
    return tool


def peer_user(params: dict[str, Any], _stdin: str | None = None) -> str:
    return user(params["id"])


def many_of_ours(engine: EngineKind) -> None:
    builder = ScriptedTool.builder("api", engine).journal(False)
    for number in range(MANY):
        builder.tool(ToolDef(f"get_{number}", "Fetch a user").with_schema(SCHEMA), get_user)
    assert builder.build().execute_sync("get_7 --id 1").stdout == user(1)


def many_of_peer() -> None:
    tool = Peer("api")
    for number in range(MANY):
        tool.add_tool(f"get_{number}", "Fetch a user", callback=peer_user, schema=SCHEMA)
    assert tool.execute_sync("get_7 --id 1").stdout == user(1)


def names(tool: Any, script: str, calls: int) -> Callable[[], None]:
    expected = "".join(f"user {number}\n" for number in range(1, calls + 1))

    def run() -> None:
        assert tool.execute_sync(script).stdout == expected

    return run


def race(
    contenders: dict[str, Callable[[], object]], rounds: int, limits: dict[str, float]
) -> None:
    """Take turns; each is compared with the first by the best and by the usual time."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, run in contenders.items():
            if name == FROM_SPARE:
                prepare_spare()
                time.sleep(0.5)
            started = time.perf_counter()
            run()
            if number:  # the first round starts what stays warm
                times[name].append((time.perf_counter() - started) * 1e3)
    first = next(iter(times.values()))
    for name, taken in times.items():
        low, middle = min(taken), statistics.median(taken)
        line = f"{name:<32} min {low:8.2f} ms   median {middle:8.2f} ms"
        if taken is not first:
            line += f"   x {low / min(first):.2f} / {middle / statistics.median(first):.2f}"
            line += f"   (at most {limits[name]})" if name in limits else ""
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    inproc, worker = ours("inproc"), ours("worker")
    race(
        {
            "ten calls, bashkit": names(peer(), TEN, 10),
            "ten calls, in-process": names(inproc, TEN, 10),
            "ten calls, worker": names(worker, TEN, 10),
            "… in-process, with journal": names(ours("inproc", journal=True), TEN, 10),
            "… worker, with journal": names(ours("worker", journal=True), TEN, 10),
        },
        rounds,
        {"ten calls, in-process": 1.3, "ten calls, worker": 2.5},
    )
    for form, script in (("a loop", TWO_HUNDRED), ("lines", LINES)):
        race(
            {
                f"200 calls, {form}, bashkit": names(peer(), script, 200),
                f"200 calls, {form}, in-process": names(inproc, script, 200),
            },
            max(9, rounds // 4),
            {f"200 calls, {form}, in-process": 1.3},
        )
    race(
        {
            "one call of 200 ms": lambda: worker.execute_sync(ONE),
            "20 of them, pmap -j 20": lambda: worker.execute_sync(TWENTY),
        },
        max(3, rounds // 8),
        {"20 of them, pmap -j 20": 1.5},
    )
    race(
        {
            "500 tools, bashkit": many_of_peer,
            "500 tools, in-process": lambda: many_of_ours("inproc"),
            FROM_SPARE: lambda: many_of_ours("worker"),
        },
        rounds // 2,
        {"500 tools, in-process": 0.6},
    )


if __name__ == "__main__":
    main()
