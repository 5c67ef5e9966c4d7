"""Mixed calls from many tasks while what serves them is killed at random.

python -m tests.execution.load CALLS TASKS    the same by hand, with figures
"""

import asyncio
import contextlib
import gc
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from skillpouch.errors import NoPlaceError
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.engine import Engine
from skillpouch.limits import Limits
from tests.execution.warm_calls import Skill, below, prefork_servers, sandboxes, waiting_children

ANSWER = "import json, os, sys\nos.write(3, json.dumps(sys.argv[1]).encode())\n"
WORDS = "import argparse, sys\nprint(sys.argv[1])\n"
FAIL = "import sys\nprint(sys.argv[1], file=sys.stderr)\nsys.exit(7)\n"
SLEEP = "import sys, time\nprint(sys.argv[1], flush=True)\ntime.sleep(1000)\n"
BULK = "import sys\ndata = sys.stdin.buffer.read()\nsys.stdout.buffer.write(data)\n"
DATA = b"0123456789abcdef" * 20_000

Fact = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A sort of call: how often it is made, what it runs, what is right about its end."""

    weight: int
    make: Callable[[Skill, str], Command]
    seen: Callable[[Ended], Fact]
    right: Callable[[str], Fact]


def _script(name: str, text: str, **options: object) -> Callable[[Skill, str], Command]:
    return lambda skill, word: skill.command(skill.write(name, text), word, **options)


def _bash(skill: Skill, word: str) -> Command:
    argv = ("/bin/bash", "-c", 'sleep 0 & echo "$0"', word)
    return Command(argv=argv, env={}, cwd=skill.workspace, limits=Limits(timeout_seconds=20))


KINDS = {
    "answer": Kind(
        weight=30,
        make=_script("answer", ANSWER, answers=True),
        seen=lambda ended: (ended.exit_code, ended.answer),
        right=lambda word: (0, b'"%b"' % word.encode()),
    ),
    "words": Kind(
        weight=30,
        make=_script("words", WORDS),
        seen=lambda ended: (ended.exit_code, ended.stdout.text),
        right=lambda word: (0, f"{word}\n"),
    ),
    "bash": Kind(
        weight=20,
        make=_bash,
        seen=lambda ended: (ended.exit_code, ended.stdout.text),
        right=lambda word: (0, f"{word}\n"),
    ),
    "fail": Kind(
        weight=12,
        make=_script("fail", FAIL),
        seen=lambda ended: (ended.outcome, ended.exit_code, ended.stderr.text),
        right=lambda word: ("failed", 7, f"{word}\n"),
    ),
    "bulk": Kind(
        weight=6,
        make=_script("bulk", BULK, stdin=DATA, limits={"keep_bytes": 10_000}),
        seen=lambda ended: (ended.exit_code, ended.stdout.total_bytes, ended.stdout.head),
        right=lambda _: (0, len(DATA), DATA[:5000]),
    ),
    "sleep": Kind(
        weight=2,
        make=_script("sleep", SLEEP, limits={"timeout_seconds": 0.3}),
        seen=lambda ended: (ended.outcome, ended.exit_code, ended.code),
        right=lambda _: ("timed_out", 124, "timeout"),
    ),
}


class Storm:
    """Counts what became of each call; `wrong` holds those that were neither right nor lost."""

    def __init__(self, skill: Skill, engine: Engine, seed: int) -> None:
        self._skill = skill
        self._engine = engine
        self._random = random.Random(seed)
        self._raging = True
        self.became: Counter[str] = Counter()
        self.killed: Counter[str] = Counter()
        self.wrong: list[str] = []

    async def rage(self, calls: int, tasks: int, *, kill_every: float) -> None:
        killer = asyncio.ensure_future(self._kill(kill_every)) if kill_every else None
        await asyncio.gather(*(self._calls(task, calls // tasks) for task in range(tasks)))
        self._raging = False
        if killer is not None:
            await killer

    async def _calls(self, task: int, count: int) -> None:
        names, weights = list(KINDS), [kind.weight for kind in KINDS.values()]
        for number in range(count):
            (name,) = self._random.choices(names, weights)
            await self._call(name, f"{task}-{number}")

    async def _call(self, name: str, word: str) -> None:
        kind = KINDS[name]
        command = kind.make(self._skill, word)
        try:
            async with asyncio.timeout(200):
                ended = await self._engine.run(command, self._skill.confinement)
        except NoPlaceError:
            # In such a crowd the third of a second that it has may go by before it is its turn.
            self.became["no place" if name == "sleep" else "wrongly without a place"] += 1
            return
        if ended.code == "zygote_lost":
            self.became["lost"] += 1
        elif kind.seen(ended) == kind.right(word):
            self.became["right, warm" if ended.warm else "right, cold"] += 1
        elif ended.signal == signal.SIGKILL:
            self.became["killed itself"] += 1  # the child that ran it was the victim
        else:
            self.wrong.append(f"{name} {word}: {ended}"[:600])

    async def _kill(self, every: float) -> None:
        victims: dict[str, Callable[[], list[int]]] = {
            "prefork": prefork_servers,
            "sandbox": sandboxes,
            "child": waiting_children,
            "zygote": lambda: _children(os.getpid()),
        }
        while self._raging:
            await asyncio.sleep(every * self._random.random() * 2)
            sort = self._random.choice(list(victims))
            found = victims[sort]()
            if found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self._random.choice(found), signal.SIGKILL)
                    self.killed[sort] += 1


def _children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def resident_kib() -> int:
    gc.collect()
    status = Path("/proc/self/status").read_text()
    return int(next(x for x in status.splitlines() if x.startswith("VmRSS:")).split()[1])


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def by_hand(calls: int, tasks: int) -> None:
    with tempfile.TemporaryDirectory(prefix="skillpouch-storm-") as name:
        for part in ("skill", "workspace"):
            (Path(name) / part).mkdir()
        skill = Skill(
            home=Path(name) / "skill",
            workspace=Path(name) / "workspace",
            token=secrets.token_hex(8),
        )
        async with Engine(grace_seconds=0.2) as engine:
            first = Storm(skill, engine, 1)
            await first.rage(calls // 5, tasks, kill_every=0.3)
            before = resident_kib(), descriptors()
            started = time.monotonic()
            storm = Storm(skill, engine, 2)
            await storm.rage(calls, tasks, kill_every=0.3)
            seconds = time.monotonic() - started
            after = resident_kib(), descriptors()
        sys.stdout.write(
            f"{calls} calls in {seconds:.1f} s: {dict(storm.became)}, {len(storm.wrong)} wrong, "
            f"killed {dict(storm.killed)}; KiB and descriptors {before} -> {after}; "
            f"left running {below()}\n" + "\n".join(storm.wrong[:10]) + "\n"
        )


if __name__ == "__main__":
    asyncio.run(by_hand(int(sys.argv[1]), int(sys.argv[2])))
