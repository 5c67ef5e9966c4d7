"""What the command line costs: processor time against the same interpreter running the script.

The time of the whole tree counts, user and system, of the interpreter by its real path: what a
shim adds is not ours. Interleaved in one run; the minimum and the median are compared.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from generated import generate

SCRIPT = '"""Say ok."""\nimport json\n\nprint(json.dumps({"ok": True}))\n'
TARGETS = {"call": 15, "list": 8, "--help": 8, "list, 500 skills": 12}


def processor_seconds(command: list[str], folder: Path) -> float:
    """Return what a command and all that it starts use of the processors."""
    pid = os.posix_spawn(
        command[0],
        command,
        {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "HOME": str(folder)},
        file_actions=[
            (os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_WRONLY, 0) for stream in (1, 2)
        ],
    )
    _, status, used = os.wait4(pid, 0)
    assert status == 0, command
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as name:
        folder = Path(name)
        race(folder, options.rounds)


def race(folder: Path, rounds: int) -> None:
    scripts = folder / "skills/demo/scripts"
    scripts.mkdir(parents=True)
    (scripts.parent / "SKILL.md").write_text("---\nname: demo\ndescription: Demo.\n---\n")
    (scripts / "ok.py").write_text(SCRIPT)
    (folder / "work").mkdir()
    generate(folder / "many", 500)
    python = os.path.realpath(sys.executable)
    ours = [sys.executable, "-m", "skillpouch"]
    skills, work = str(folder / "skills"), str(folder / "work")
    commands = {
        "python script.py": [python, str(scripts / "ok.py")],
        "call": [*ours, "call", "demo.ok", "--root", skills, "--workspace", work],
        "list": [*ours, "list", "--root", skills],
        "--help": [*ours, "--help"],
        "list, 500 skills": [*ours, "list", "--root", str(folder / "many")],
    }
    subprocess.run(["sync"], check=False)
    times: dict[str, list[float]] = {name: [] for name in commands}
    for round_number in range(rounds + 3):
        for name, command in commands.items():
            spent = processor_seconds(command, folder)
            if round_number >= 3:  # before, the index is filled and files are read
                times[name].append(spent)
    bare = times["python script.py"]
    for name, spent in times.items():
        low, middle = min(spent) / min(bare), statistics.median(spent) / statistics.median(bare)
        target = f"   (at most {TARGETS[name]})" if name in TARGETS else ""
        print(
            f"{name:<18} min {min(spent) * 1e3:7.1f} ms   median"
            f" {statistics.median(spent) * 1e3:7.1f} ms   x {low:.1f} / {middle:.1f}{target}"
        )


if __name__ == "__main__":
    main()
