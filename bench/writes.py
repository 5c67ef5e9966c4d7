"""What it costs that a call can be undone: undoable against direct, writing nothing and 100 files.

Interleaved in one run, in workspaces of 10 and of 10,000 files; minimum and median of the rounds.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from skillpouch import SkillManager

SCRIPTS = {
    "nothing.py": '"""Say ok."""\n\n\ndef handler(args):\n    return {"ok": True}\n',
    "nothing_bash.sh": "# Say ok.\necho ok\n",
    "hundred.py": (
        '"""Write a hundred files."""\n\n\ndef handler(args):\n    for number in range(100):\n'
        '        with open(f"made-{number}", "w") as file:\n            file.write("x")\n'
    ),
}
WAYS = ("direct", "undoable")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    for files in (10, 10_000):
        with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as folder:
            os.environ["XDG_STATE_HOME"] = f"{folder}/state"
            os.environ["XDG_CONFIG_HOME"] = f"{folder}/config"
            race(Path(folder), files, options.rounds)


def race(folder: Path, files: int, rounds: int) -> None:
    scripts, workspace = folder / "skills/s/scripts", folder / "work"
    scripts.mkdir(parents=True)
    (folder / "skills/s/SKILL.md").write_text("---\nname: s\ndescription: d\n---\n")
    for name, text in SCRIPTS.items():
        (scripts / name).write_text(text)
    for number in range(files):
        file = workspace / f"folder-{number // 100}" / f"file-{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    managers = {
        way: SkillManager(folder / "skills", workspace=workspace, writes=way) for way in WAYS
    }
    for name in SCRIPTS:
        tool = f"s.{name.partition('.')[0]}"
        times = interleaved(managers, tool, rounds if "nothing" in name else rounds // 10)
        for way, each in times.items():
            figures = f"min {min(each):8.3f} ms  median {statistics.median(each):8.3f} ms"
            print(f"{files:>6} files  {tool:<15} {way:<9} {figures}")
        ratio = min(times["undoable"]) / min(times["direct"])
        print(f"{files:>6} files  {tool:<15} minimum of undoable / direct: {ratio:.2f}")


def interleaved(
    managers: dict[str, SkillManager], tool: str, rounds: int
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {way: [] for way in managers}
    for number in range(rounds + 10):
        for way, manager in managers.items():
            started = time.perf_counter()
            result = manager.call(tool, {})
            if number >= 10:  # the first rounds start what stays warm
                times[way].append((time.perf_counter() - started) * 1e3)
            assert not result.is_error
            assert result.protections["writes"].startswith(way)
    return times


if __name__ == "__main__":
    main()
