"""What confinement costs, in one run: ratios of interleaved calls, so that noise hits both sides.

python bench/execution.py [rounds]
"""

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Self

from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.limits import Limits

ENV = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
GIGABYTE = 1_000_000_000
FIRST_CALL = """
import time
start = time.perf_counter()
import asyncio, sys
from pathlib import Path
from typing import Self
from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
async def main():
    imported = time.perf_counter()
    folder = Path(sys.argv[1])
    async with Engine() as engine:
        command = Command(argv=("/bin/true",), env={}, cwd=folder)
        await engine.run(command, Confinement(workspace=folder))
        print(imported - start, time.perf_counter() - imported)
asyncio.run(main())
"""


def plain(argv: tuple[str, ...], folder: Path) -> None:
    done = subprocess.run(
        argv, env=ENV, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, check=True
    )
    assert done.stdout == b"hi\n"


async def confined(engine: Engine, argv: tuple[str, ...], confinement: Confinement) -> None:
    command = Command(argv=argv, env=ENV, cwd=confinement.workspace)
    ended = await engine.run(command, confinement)
    assert ended.stdout.head == b"hi\n", ended


async def timed(work: Callable[[], Awaitable[None] | None]) -> float:
    start = time.perf_counter()
    waiting = work()
    if waiting is not None:
        await waiting
    return time.perf_counter() - start


async def compare(
    engine: Engine, argv: tuple[str, ...], confinement: Confinement, rounds: int
) -> dict[str, float]:
    folder = confinement.workspace
    without: list[float] = []
    within: list[float] = []
    for _ in range(rounds):
        without.append(await timed(lambda: plain(argv, folder)))
        within.append(await timed(lambda: confined(engine, argv, confinement)))
    return {
        "plain_min_ms": min(without) * 1000,
        "confined_min_ms": min(within) * 1000,
        "ratio_of_minima": min(within) / min(without),
        "ratio_of_medians": statistics.median(within) / statistics.median(without),
    }


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Watch:
    """The highest memory this process had while inside."""

    def __enter__(self) -> Self:
        self.before = self.highest = resident_bytes()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._done.wait(0.005):
            self.highest = max(self.highest, resident_bytes())

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


async def gigabyte(engine: Engine, confinement: Confinement) -> dict[str, float]:
    limits = Limits(kill_bytes=2 * GIGABYTE, timeout_seconds=300)
    argv = ("/usr/bin/head", "-c", str(GIGABYTE), "/dev/zero")
    command = Command(argv=argv, env=ENV, cwd=confinement.workspace, limits=limits)
    start = time.perf_counter()
    with Watch() as watch:
        ended = await engine.run(command, confinement)
    seconds = time.perf_counter() - start
    assert ended.stdout.total_bytes == GIGABYTE
    if ended.stdout.saved_to is not None:
        ended.stdout.saved_to.unlink()
    return {"more_mb": (watch.highest - watch.before) / 1e6, "seconds": seconds}


def first_call(folder: Path, rounds: int) -> dict[str, float]:
    imports: list[float] = []
    calls: list[float] = []
    for _ in range(rounds):
        command = [sys.executable, "-c", FIRST_CALL, str(folder)]
        words = subprocess.run(command, capture_output=True, check=True).stdout.split()
        imports.append(float(words[0]))
        calls.append(float(words[1]))
    return {
        "import_min_ms": min(imports) * 1000,
        "call_min_ms": min(calls) * 1000,
        "call_median_ms": statistics.median(calls) * 1000,
    }


async def throughput(engine: Engine, confinement: Confinement) -> dict[str, float]:
    async def one() -> None:
        await confined(engine, ("/bin/echo", "hi"), confinement)

    start = time.perf_counter()
    await asyncio.gather(*(one() for _ in range(500)))
    return {"calls_per_second": 500 / (time.perf_counter() - start)}


async def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "hi.sh").write_text("echo hi\n")
        (folder / "hi.py").write_text("print('hi')\n")
        confinement = Confinement(workspace=folder)
        async with Engine() as engine:
            report = {
                "bash": await compare(
                    engine, ("/bin/bash", str(folder / "hi.sh")), confinement, rounds
                ),
                "cold python": await compare(
                    engine, ("/usr/bin/python3", str(folder / "hi.py")), confinement, rounds
                ),
                "one gigabyte": await gigabyte(engine, confinement),
                "500 at once": await throughput(engine, confinement),
                "first call": first_call(folder, 10),
            }
    for what, figures in report.items():
        print(what, json.dumps({key: round(value, 2) for key, value in figures.items()}))


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
