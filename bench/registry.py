"""What finding and listing tools costs with 100, 10,000 and 100,000 of them.

One run, one process; each figure is the best of several. A tenth of the tools want a name that
another one wants, too. "flat" compares the largest registry with the smallest.
"""

import argparse
import time
from collections.abc import Callable

from skillpouch import ToolRegistry
from skillpouch.errors import UnknownToolError
from skillpouch.tools import Stub, Tool, wire_name

SIZES = (100, 10_000, 100_000)
SAMPLE = 100
MOST = 4.0  # caches of the processor: a large dictionary is not quite as quick as a small one
MISTAKE = "a wrong name, in all"  # compared with others, to say which was meant
Row = dict[str, float]  # microseconds per tool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    rows = {size: measure(size, rounds) for size in SIZES}
    print(f"{'µs for each tool':24}" + "".join(f"{size:>12,}" for size in SIZES) + f"{'flat':>9}")
    for what in rows[SIZES[0]]:
        times = [rows[size][what] for size in SIZES]
        if what == MISTAKE:
            print(f"{what:24}" + "".join(f"{t:12.0f}" for t in times))
            continue
        ratio = times[-1] / times[0]
        verdict = "" if ratio <= MOST else f"  (more than {MOST})"
        print(f"{what:24}" + "".join(f"{t:12.2f}" for t in times) + f"{ratio:8.1f}x{verdict}")


def measure(size: int, rounds: int) -> Row:
    tools = [make(number, size) for number in range(size)]
    registry = filled(tools)
    chosen = tools[:: max(1, size // SAMPLE)]
    first = chosen[0]

    def change() -> None:
        for tool in chosen:
            registry.remove(tool.id)
            registry.register(tool)
            registry.get(f"{tool.skill}__{tool.name}")

    return {
        "register": best(lambda: filled(tools), rounds) / size,
        "get by id": best(lambda: [registry.get(t.id) for t in chosen], rounds) / len(chosen),
        "get by wire name": best(lambda: [registry.get(t.name) for t in chosen], rounds)
        / len(chosen),
        "get by skill__tool": best(
            lambda: [registry.get(f"{t.skill}__{t.name}") for t in chosen], rounds
        )
        / len(chosen),
        "remove, add, get": best(change, rounds) / len(chosen),
        "replace": best(lambda: [registry.register(t) for t in chosen], rounds) / len(chosen),
        "list": best(lambda: list(registry), rounds) / size,
        MISTAKE: best(lambda: wrong(registry, first.name), rounds),
    }


def make(number: int, size: int) -> Tool:
    name = f"tool{number % (size * 9 // 10)}"
    skill = f"skill{number}"
    return Tool(
        id=f"{skill}.{name}",
        name=wire_name(skill, name, declared=True),
        skill=skill,
        description="It helps.",
        input_schema={"type": "object"},
        runs=Stub(skill=skill),
    )


def filled(tools: list[Tool]) -> ToolRegistry:
    registry = ToolRegistry()
    for tool in tools:
        registry.register(tool)
    return registry


def wrong(registry: ToolRegistry, name: str) -> None:
    try:
        registry.get(f"{name}-mistyped")
    except UnknownToolError:
        return
    raise AssertionError("there is such a tool")


def best(run: Callable[[], object], rounds: int) -> float:
    """Return microseconds."""
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times) * 1e6


if __name__ == "__main__":
    main()
