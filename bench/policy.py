"""What a decision costs as rules become many: the minimum and the median of single decisions.

`named`: each rule names a tool or all tools of a skill. `anywhere`: each rule is about every tool
and one argument. `same argument`: every rule looks at the argument that the call has, which no
index can spare. `first` is a tool that was never asked about before.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from itertools import count

from skillpouch.needs import Need
from skillpouch.policy import Condition, Glob, Policy, Request, Rule

SIZES = (10, 100, 1_000, 10_000)
VERDICTS = ("allow", "ask", "deny")
ARGUMENTS = {"path": "docs/readme.md", "force": False, "count": 3, "tags": ["a", "b"]}
NEEDS = (Need(kind="host", value="api.example.com"), Need(kind="secret", value="API_KEY"))


def named(size: int) -> Policy:
    shapes: tuple[Callable[[int], str], ...] = (
        lambda n: f"skill-{n}.tool-{n}",
        lambda n: f"skill-{n}.*",
        lambda n: f"*.tool-{n}",
    )
    rules = [
        Rule(
            verdict=VERDICTS[n % 3],
            tools=[shapes[n % 3](n)],
            when=[Condition(argument="path", test=Glob(f"docs/{n}/*"))] if n % 2 else (),
        )
        for n in range(size)
    ]
    return Policy(rules=rules)


def anywhere(size: int) -> Policy:
    return Policy(
        rules=[
            Rule(verdict="deny", when=[Condition(argument=f"key{n}", test=Glob("x*"))])
            for n in range(size)
        ]
    )


def same_argument(size: int) -> Policy:
    return Policy(
        rules=[
            Rule(verdict="deny", when=[Condition(argument="path", test=Glob(f"etc/{n}/*"))])
            for n in range(size)
        ]
    )


def request(tool: str) -> Request:
    return Request(
        tool=tool,
        skill=tool.partition(".")[0],
        effects=("read", "network"),
        arguments=ARGUMENTS,
        needs=NEEDS,
        confined=True,
        first_use=False,
    )


def measure(decide: Callable[[], object], rounds: int) -> tuple[float, float]:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        decide()
        times.append((time.perf_counter() - started) * 1e6)
    return min(times), statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=2_000)
    rounds = parser.parse_args().rounds
    for name, make in (("named", named), ("anywhere", anywhere), ("same argument", same_argument)):
        for size in SIZES:
            started = time.perf_counter()
            policy = make(size)
            made = (time.perf_counter() - started) * 1e3
            known = request("skill-3.tool-3")
            low, middle = measure(lambda: policy.decide(known), rounds)  # noqa: B023 - at once
            line = f"{name:<14} {size:>6} rules  min {low:8.1f} us  median {middle:8.1f} us"
            fresh = count()
            first, usual = measure(
                lambda: policy.decide(request(f"other-{next(fresh)}.tool")),  # noqa: B023
                max(20, rounds // 20),
            )
            print(f"{line}  first {first:9.1f} / {usual:9.1f} us  made in {made:7.1f} ms")


if __name__ == "__main__":
    main()
