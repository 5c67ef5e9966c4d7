"""How soon an edit is served: by events and by polling, with few skills and with many.

Each round saves one script of one skill and waits until a listener has heard of it, and until a
call gives the new version. The goal is a second for each of them.
"""

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path

from skillpouch import SkillManager
from skillpouch.discovery.watching.listening import Changes

SIZES = (10, 100, 1_000)
GOAL_MS = 1_000.0
FILES = 8  # of each skill, besides its SKILL.md and its script


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    print(f"{'ms':28}{'start':>8}{'median':>9}{'most':>8}{'called':>9}")
    for size in SIZES:
        for polling in (False, True):
            with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as name:
                bench = Bench(Path(name), size)
                print(bench.line(rounds, polling=polling))


class Bench:
    def __init__(self, folder: Path, size: int) -> None:
        self._root = folder / "skills"
        self._work = folder / "work"
        self._work.mkdir()
        self._size = size
        for number in range(size):
            self._write(number)

    def _write(self, number: int) -> None:
        home = self._root / f"skill{number}"
        (home / "scripts").mkdir(parents=True)
        head = f"name: skill{number}\ndescription: Says a number.\n"
        (home / "SKILL.md").write_text(f"---\n{head}---\n\nCall it.\n")
        for other in range(FILES):
            (home / f"note{other}.md").write_text("Something to read.\n" * 50)
        self._save(number, 0)

    def _save(self, number: int, version: int) -> None:
        text = f'"""Say {version}."""\n\n\ndef handler(args):\n    return {version}\n'
        (self._root / f"skill{number}/scripts/say.py").write_text(text)

    def line(self, rounds: int, *, polling: bool) -> str:
        heard = threading.Event()

        def on_change(changes: Changes) -> None:
            if changes.changed:
                heard.set()

        manager = SkillManager(self._root, workspace=self._work, journal=False)
        started = time.perf_counter()
        told, called = [], []
        with manager.watch(on_change, polling=polling):
            start = (time.perf_counter() - started) * 1e3
            for version in range(1, rounds + 1):
                number = version * 7 % self._size
                self._save(number, version)
                saved = time.perf_counter()
                if not heard.wait(60):
                    raise AssertionError("an edit was not noticed")
                told.append((time.perf_counter() - saved) * 1e3)
                heard.clear()
                if manager.call(f"skill{number}.say").structured != version:
                    raise AssertionError("a wrong version")
                called.append((time.perf_counter() - saved) * 1e3)
        way = "polling" if polling else "events"
        most = max(told)
        verdict = "" if most <= GOAL_MS else f"  (more than {GOAL_MS:.0f})"
        return (
            f"{f'{self._size:,} skills, {way}':28}{start:8.0f}{statistics.median(told):9.0f}"
            f"{most:8.0f}{statistics.median(called):9.0f}{verdict}"
        )


if __name__ == "__main__":
    main()
