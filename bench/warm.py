"""What a warm call costs, all layers on: against the bare system, a fresh interpreter and a peer.

Contenders of one table take turns in one run, so that noise hits all of them. "waiting" leaves a
pause before the call, so that a process waits for it; "forked" comes right after another call.
Ratios are of the minima, which noise disturbs least, and of the medians.
"""

import argparse
import asyncio
import contextlib
import importlib.util
import io
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from skillpouch import SkillManager

PAUSE_SECONDS = 0.006  # a child is forked, and has touched its memory
PANDAS_PAUSE_SECONDS = 0.03
NODE_PAUSE_SECONDS = 0.15
TEACHING_ROUNDS = 4  # the first rounds start what stays warm, and teach it what scripts load
CROWD = 200
IMPORTS = "import argparse, json, logging, subprocess, urllib.request\n"
SCRIPTS = {
    "handle.py": '"""Say ok."""\n\n\ndef handler(args):\n    return {"ok": True}\n',
    "bare.py": 'import json\nimport sys\n\njson.load(sys.stdin)\nprint(json.dumps({"ok": True}))\n',
    "ordinary.py": f'"""Say ok."""\n{IMPORTS}print("ok")\n',
    "frames.py": '"""Say ok."""\nimport pandas\n\nprint(len(pandas.DataFrame({"a": [1]})))\n',
    "handle.mjs": "/** Say ok. */\nexport default async () => ({ ok: true });\n",
    "fresh.mjs": "console.log(JSON.stringify({ ok: true }));\n",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """Something to be timed, `pause` seconds after what came before it."""

    run: Callable[[], object]
    pause: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a ratio should be: `at_most` so many times as long, `at_least` so many times faster."""

    what: str
    against: str
    at_most: float = 0.0
    at_least: float = 0.0


GOALS = (
    Goal(what="handler, waiting", against="/bin/true", at_most=4),
    Goal(what="handler, waiting", against="skillkit", at_least=8),
    Goal(what="handler, forked", against="/bin/true", at_most=7),
    Goal(what="handler, forked", against="skillkit", at_least=4.5),
    Goal(what="imports, waiting", against="imports, fresh", at_least=10),
    Goal(what="pandas, waiting", against="pandas, fresh", at_least=25),
    Goal(what="node, waiting", against="node, fresh", at_least=8),
    Goal(what=f"{CROWD} at once", against=f"{CROWD} fresh at once", at_least=8),
)
Times = dict[str, list[float]]  # milliseconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    rounds = parser.parse_args().rounds
    few = max(10, rounds // 5)
    with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as name:
        bench = Bench(Path(name))
        times = race(bench.python(), rounds)
        times |= race(bench.imports(), few)
        times |= race(bench.node(), few)
        times |= bench.crowd()
    show(times)
    judge(times)


class Bench:
    """One skill, the manager that calls it, and everything it is compared with."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "skills"
        self._scripts = self._root / "s/scripts"
        self._scripts.mkdir(parents=True)
        (folder / "work").mkdir()
        (self._root / "s/SKILL.md").write_text("---\nname: s\ndescription: d\n---\nDo it.\n")
        for name, text in SCRIPTS.items():
            (self._scripts / name).write_text(text)
        # The peer looks for python3 on PATH: give it this interpreter, and not a shim before it.
        os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._manager = SkillManager(self._root, workspace=folder / "work")

    def python(self) -> dict[str, Contender]:
        return {
            "/bin/true": Contender(run=spawn_true),
            "skillkit": Contender(run=self._peer()),
            "python, fresh": self._fresh(sys.executable, "bare.py"),
            "(another call)": self._warm("s.handle-py"),
            "handler, forked": self._warm("s.handle-py"),
            "handler, waiting": self._warm("s.handle-py", PAUSE_SECONDS),
        }

    def imports(self) -> dict[str, Contender]:
        found = {
            "imports, fresh": self._fresh(sys.executable, "ordinary.py"),
            "imports, waiting": self._warm("s.ordinary", PAUSE_SECONDS),
        }
        if importlib.util.find_spec("pandas") is None:
            print("no pandas: `make bench` installs it")
            return found
        return found | {
            "pandas, fresh": self._fresh(sys.executable, "frames.py"),
            "pandas, waiting": self._warm("s.frames", PANDAS_PAUSE_SECONDS),
        }

    def node(self) -> dict[str, Contender]:
        if shutil.which("node") is None:
            print("no node: `make interpreters` installs it")
            return {}
        return {
            "node, fresh": self._fresh("node", "fresh.mjs", NODE_PAUSE_SECONDS),
            "node, waiting": self._warm("s.handle", NODE_PAUSE_SECONDS),
        }

    def crowd(self) -> Times:
        """Run many calls at once, and as many unconfined interpreters."""
        asyncio.run(timed_together(self._one_warm))  # as many places as it wants
        times: Times = {f"{CROWD} fresh at once": [], f"{CROWD} at once": []}
        for _ in range(3):
            for name, one in zip(times, (self._one_fresh, self._one_warm), strict=True):
                times[name].append(asyncio.run(timed_together(one)))
        return times

    def _fresh(self, program: str, script: str, pause: float = 0.0) -> Contender:
        words = [program, str(self._scripts / script)]
        return Contender(
            run=lambda: subprocess.run(words, input=b"{}", capture_output=True, check=True),
            pause=pause,
        )

    def _warm(self, tool: str, pause: float = 0.0) -> Contender:
        def run() -> None:
            result = self._manager.call(tool)
            assert result.outcome == "ok", result
            assert result.warm, result.cold_because

        return Contender(run=run, pause=pause)

    def _peer(self) -> Callable[[], object]:
        from skillkit import SkillManager as Peer

        with contextlib.redirect_stdout(io.StringIO()):
            peer = Peer(project_skill_dir=self._root)
            peer.discover()
        return lambda: peer.execute_skill_script("s", "bare", {"a": 1})

    async def _one_fresh(self) -> None:
        words = (sys.executable, str(self._scripts / "bare.py"))
        process = await asyncio.create_subprocess_exec(*words, stdin=-1, stdout=-1)
        await process.communicate(b"{}")

    async def _one_warm(self) -> None:
        assert (await self._manager.acall("s.handle-py")).structured == {"ok": True}


def spawn_true() -> None:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


async def timed_together(one: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(CROWD)))
    return (time.perf_counter() - started) * 1e3


def race(contenders: dict[str, Contender], rounds: int) -> Times:
    times: Times = {name: [] for name in contenders}
    for number in range(rounds + TEACHING_ROUNDS):
        for name, contender in contenders.items():
            time.sleep(contender.pause)
            started = time.perf_counter()
            contender.run()
            if number >= TEACHING_ROUNDS:
                times[name].append((time.perf_counter() - started) * 1e3)
    return times


def show(times: Times) -> None:
    for name, taken in times.items():
        print(f"{name:<20} min {min(taken):9.2f} ms   median {statistics.median(taken):9.2f} ms")


def judge(times: Times) -> None:
    """Print each goal with what was reached, by minimum and by median."""
    for goal in GOALS:
        if goal.what not in times or goal.against not in times:
            continue
        ratios = [
            pick(times[goal.what]) / pick(times[goal.against]) for pick in (min, statistics.median)
        ]
        if goal.at_least:
            ratios = [1 / ratio for ratio in ratios]
            reached, wanted = (
                ratios[0] >= goal.at_least,
                f"at least {goal.at_least:g} x faster than",
            )
        else:
            reached, wanted = ratios[0] <= goal.at_most, f"at most {goal.at_most:g} x"
        low, middle = ratios
        verdict = "reached" if reached else "MISSED"
        print(f"{goal.what:<20} {low:6.1f} / {middle:5.1f}   {verdict}: {wanted} {goal.against}")


if __name__ == "__main__":
    main()
