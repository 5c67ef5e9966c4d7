"""What it costs that a call can be undone: undoable against direct, writing nothing and 100 files.

Interleaved in one run, in workspaces of 10 and of 10,000 files; minimum and median of the rounds,
and the median of the ratios of each round. Each file gets a thousand bytes that it did not have.
At the end, what an undo itself costs: of one file and of a hundred, in workspaces of both sizes.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from skillpouch import Policy, SkillManager

BYTES = 1_000
TEXT = f'str(time.time_ns()) * ({BYTES} // 19) + "x" * ({BYTES} % 19)'  # of 19 digits
SCRIPTS = {
    "nothing.py": '"""Say ok."""\n\n\ndef handler(args):\n    return {"ok": True}\n',
    "nothing_bash.sh": "# Say ok.\necho ok\n",
    "new.py": (
        '"""Write a hundred new files."""\nimport time\n\n\ndef handler(args):\n'
        f"    text = {TEXT}\n    for number in range(100):\n"
        '        with open(f"new-{number}", "w") as file:\n            file.write(text)\n'
    ),
    "folders.py": (
        '"""Write a hundred files in ten new folders."""\nimport os\nimport time\n\n\n'
        f"def handler(args):\n    text = {TEXT}\n    for number in range(100):\n"
        '        os.makedirs(f"new-{number // 10}", exist_ok=True)\n'
        '        with open(f"new-{number // 10}/{number}", "w") as file:\n'
        "            file.write(text)\n"
    ),
    "overwritten.py": (
        '"""Write a hundred files that exist."""\nimport time\n\n\ndef handler(args):\n'
        f"    text = {TEXT}\n    for number in range(100):\n"
        '        with open(f"old-{number}", "w") as file:\n            file.write(text)\n'
    ),
    "one.py": (
        '"""Write one file that exists."""\nimport time\n\n\ndef handler(args):\n'
        f'    with open("old-0", "w") as file:\n        file.write({TEXT})\n'
    ),
    "edited.py": (
        '"""Change a hundred files in place."""\nimport time\n\n\ndef handler(args):\n'
        f"    text = {TEXT}\n    for number in range(100):\n"
        '        with open(f"old-{number}", "r+") as file:\n            file.write(text)\n'
    ),
}
WAYS = ("direct", "undoable")
_WARM_UP = 10  # rounds that start what stays warm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--tools", default="", help="names of tools, with commas; all without it")
    parser.add_argument("--files", default="10,10000", help="sizes of workspaces, with commas")
    options = parser.parse_args()
    names = [name for name in SCRIPTS if _tool(name) in options.tools.split(",")] or list(SCRIPTS)
    for files in map(int, options.files.split(",")):
        with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as folder:
            os.environ["XDG_STATE_HOME"] = f"{folder}/state"
            os.environ["XDG_CONFIG_HOME"] = f"{folder}/config"
            race(Path(folder), files, options.rounds, names)


def _tool(name: str) -> str:
    return name.partition(".")[0]


def race(folder: Path, files: int, rounds: int, names: list[str]) -> None:
    scripts = folder / "skills/s/scripts"
    scripts.mkdir(parents=True)
    (folder / "skills/s/SKILL.md").write_text("---\nname: s\ndescription: d\n---\n")
    for name, text in SCRIPTS.items():
        (scripts / name).write_text(text)
    for way in WAYS:
        for number in range(files):
            file = folder / way / f"folder-{number // 100}" / f"file-{number}"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("x")
        for number in range(100):
            (folder / way / f"old-{number}").write_text("x" * BYTES)
    # Trusting: it does not ask about 100 files that are overwritten.
    managers = {
        way: SkillManager(
            folder / "skills", workspace=folder / way, writes=way, policy=Policy.trusting()
        )
        for way in WAYS
    }
    for name in names:
        tool = f"s.{_tool(name)}"
        times = interleaved(managers, folder, tool, rounds if "nothing" in name else rounds // 2)
        for way, each in times.items():
            figures = f"min {min(each):8.3f} ms  median {statistics.median(each):8.3f} ms"
            print(f"{files:>6} files  {tool:<15} {way:<9} {figures}")
        ratio = min(times["undoable"]) / min(times["direct"])
        usual = statistics.median(times["undoable"]) / statistics.median(times["direct"])
        pairs = zip(times["undoable"], times["direct"], strict=True)
        paired = statistics.median(undoable / direct for undoable, direct in pairs)
        ratios = f"min {ratio:.2f} median {usual:.2f} paired {paired:.2f}"
        print(f"{files:>6} files  {tool:<15} undoable / direct: {ratios}")
    for name in ("one", "overwritten"):
        each = undone(managers["undoable"], f"s.{name}", rounds // 4)
        figures = f"min {min(each):8.3f} ms  median {statistics.median(each):8.3f} ms"
        print(f"{files:>6} files  s.{name:<13} undo      {figures}")


def interleaved(
    managers: dict[str, SkillManager], folder: Path, tool: str, rounds: int
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {way: [] for way in managers}
    for number in range(rounds + _WARM_UP):
        turn = list(managers.items())
        for way, manager in turn if number % 2 else reversed(turn):
            started = time.perf_counter()
            result = manager.call(tool, {})
            if number >= _WARM_UP:
                times[way].append((time.perf_counter() - started) * 1e3)
            assert not result.is_error
            assert result.protections["writes"].startswith(way)
            put_aside(folder / way)
    return times


def undone(manager: SkillManager, tool: str, rounds: int) -> list[float]:
    times: list[float] = []
    for _ in range(rounds + _WARM_UP):
        result = manager.call(tool, {})
        started = time.perf_counter()
        undo = manager.undo(result)
        times.append((time.perf_counter() - started) * 1e3)
        assert not result.is_error
        assert not undo.is_error
    return times[_WARM_UP:]


def put_aside(workspace: Path) -> None:
    """Move what a call made out of the workspace.

    It is not deleted: ext4 looks long for a free inode when many were deleted a moment ago.
    """
    made = list(workspace.glob("new-*"))
    if made:
        aside = Path(tempfile.mkdtemp(prefix="aside-", dir=workspace.parent))
        for each in made:
            each.rename(aside / each.name)


if __name__ == "__main__":
    main()
