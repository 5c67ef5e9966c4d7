"""How fast skills are found and read: ratios against a peer and against the bare system calls.

Everything in one process and one run, interleaved, because this is about ratios: the machine
may be busy, but it is equally busy for all. Minimum and median of the rounds are shown.
"""

import argparse
import ast
import contextlib
import gc
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from generated import generate

from skillpouch import SkillManager

Contender = Callable[[], object]
Times = dict[str, list[float]]


def bare_read(files: list[Path]) -> int:
    """List the folders of the skills and read every SKILL.md, nothing else."""
    total = 0
    with os.scandir(files[0].parent.parent) as root:
        for folder in root:
            with os.scandir(folder.path) as entries:
                for entry in entries:
                    if entry.name == "SKILL.md":
                        with open(entry.path, "rb") as file:
                            total += len(file.read())
    return total


def bare_stat(files: list[Path]) -> int:
    """List the folders of the skills and stat every SKILL.md, nothing else."""
    total = 0
    with os.scandir(files[0].parent.parent) as root:
        for folder in root:
            with os.scandir(folder.path) as entries:
                for entry in entries:
                    if entry.name == "SKILL.md":
                        total += os.stat(entry.path).st_size
    return total


def bare_stat_scripts(root: Path) -> int:
    """List every folder below the root and stat every file."""
    total = 0
    for folder, _, files in os.walk(root):
        for name in files:
            total += os.stat(f"{folder}/{name}").st_size
    return total


def parse_scripts(scripts: list[Path]) -> int:
    return sum(len(ast.parse(script.read_bytes()).body) for script in scripts)


def peer(root: Path) -> int:
    import logging

    from skillkit import SkillManager as PeerManager

    logging.disable(logging.CRITICAL)
    manager = PeerManager(project_skill_dir=str(root))
    manager.discover()
    return len(manager.list_skills())


def discover(root: Path) -> int:
    manager = SkillManager(root)
    manager.discover()
    return len(manager.list_skills())


class Bench:
    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._cache = Path(tempfile.mkdtemp(prefix="skillpouch-bench-"))
        os.environ["XDG_CACHE_HOME"] = str(self._cache)
        self.results: dict[str, dict[str, float]] = {}

    def close(self) -> None:
        shutil.rmtree(self._cache)

    def forget(self) -> None:
        shutil.rmtree(self._cache / "skillpouch", ignore_errors=True)

    def race(self, contenders: dict[str, tuple[Contender, Contender]]) -> Times:
        """Time (prepare, run) pairs in turn, round by round."""
        times: Times = {name: [] for name in contenders}
        for _ in range(self._rounds):
            for name, (prepare, run) in contenders.items():
                prepare()
                gc.collect()
                started = time.perf_counter()
                run()
                times[name].append(time.perf_counter() - started)
        return times

    def say(self, title: str, times: Times, ratios: list[tuple[str, str, str]]) -> None:
        print(f"\n{title}")
        for name, spent in times.items():
            low, middle = min(spent) * 1e3, statistics.median(spent) * 1e3
            print(f"  {name:<28} min {low:9.2f} ms   median {middle:9.2f} ms")
        for one, other, target in ratios:
            low = min(times[one]) / min(times[other])
            middle = statistics.median(times[one]) / statistics.median(times[other])
            print(f"  {one} / {other}: min {low:.3f}  median {middle:.3f}  (target {target})")
            self.results[f"{title}: {one} / {other}"] = {"min": low, "median": middle}


def nothing() -> None:
    """Prepare nothing."""


def discovery(bench: Bench, size: int) -> None:
    with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as folder:
        root = Path(folder)
        files = generate(root, size)
        time.sleep(0.1)  # younger files are read again on purpose
        times = bench.race(
            {
                "bare read": (nothing, lambda: bare_read(files)),
                "bare stat": (nothing, lambda: bare_stat(files)),
                "skillkit": (nothing, lambda: peer(root)),
                "skillpouch cold": (bench.forget, lambda: discover(root)),
                "skillpouch warm": (lambda: discover(root), lambda: discover(root)),
            }
        )
        bench.say(
            f"discover() + list_skills(), {size:,} skills",
            times,
            [
                ("skillpouch cold", "skillkit", "0.20"),
                ("skillpouch cold", "bare read", "8"),
                ("skillpouch warm", "skillkit", "0.05"),
                ("skillpouch warm", "bare stat", "3"),
            ],
        )


def nested_frontmatter(bench: Bench, size: int) -> None:
    with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as folder:
        root = Path(folder)
        generate(root, size, nested=True)
        assert discover(root) == peer(root) == size
        times = bench.race(
            {
                "skillkit": (nothing, lambda: peer(root)),
                "skillpouch cold": (bench.forget, lambda: discover(root)),
            }
        )
        bench.say(
            f"{size:,} skills with maps and lists in their frontmatter",
            times,
            [("skillpouch cold", "skillkit", "0.20")],
        )


def tools(bench: Bench, size: int) -> None:
    with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as folder:
        root = Path(folder)
        generate(root, size, scripts=3)
        scripts = sorted(root.rglob("*.py"))
        time.sleep(0.1)

        def read_all() -> int:
            return len(SkillManager(root).tools)

        assert read_all() == len(scripts)
        times = bench.race(
            {
                "ast.parse": (nothing, lambda: parse_scripts(scripts)),
                "scandir + stat": (nothing, lambda: bare_stat_scripts(root)),
                "all tools cold": (bench.forget, read_all),
                "all tools warm": (read_all, read_all),
            }
        )
        bench.say(
            f"every tool of {size:,} skills with 3 scripts each",
            times,
            [("all tools cold", "ast.parse", "2"), ("all tools warm", "scandir + stat", "3")],
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000, 5000])
    parser.add_argument("--json", type=Path, help="write the ratios there")
    options = parser.parse_args()
    bench = Bench(options.rounds)
    with contextlib.closing(bench):
        for size in options.sizes:
            discovery(bench, size)
        for size in [size for size in options.sizes if size <= 1000]:
            nested_frontmatter(bench, size)
        for size in [size for size in options.sizes if size <= 1000]:
            tools(bench, size)
    if options.json:
        options.json.write_text(json.dumps(bench.results, indent=2))


if __name__ == "__main__":
    sys.exit(main())
