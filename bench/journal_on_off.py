"""What policy, grants and the journal cost a warm Python call: with the journal and without.

Interleaved in one run; the minimum and the median of the rounds are compared. The processor time
of the host is shown too: on a busy machine the rest is mostly waiting.
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from skillpouch import SkillManager

SCRIPT = '"""Say ok."""\n\n\ndef handler(args):\n    return {"ok": True}\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        os.environ["XDG_CONFIG_HOME"] = f"{folder}/config"
        race(Path(folder), options.rounds)


def race(folder: Path, rounds: int) -> None:
    scripts, workspace = folder / "skills/s/scripts", folder / "work"
    scripts.mkdir(parents=True)
    workspace.mkdir()
    (folder / "skills/s/SKILL.md").write_text("---\nname: s\ndescription: d\n---\n")
    (scripts / "ok.py").write_text(SCRIPT)
    managers = {
        name: SkillManager(folder / "skills", workspace=workspace, journal=journal)
        for name, journal in (("off", False), ("on", True))
    }
    times: dict[str, list[float]] = {name: [] for name in managers}
    spent: dict[str, list[float]] = {name: [] for name in managers}
    for number in range(rounds + 20):
        # Each goes first every other time: whoever follows finds a process that is ready.
        for name in sorted(managers, reverse=bool(number % 2)):
            started, worked = time.perf_counter(), time.process_time()
            managers[name].call("s.ok", {})
            if number >= 20:  # the first rounds start what stays warm
                spent[name].append((time.process_time() - worked) * 1e3)
                times[name].append((time.perf_counter() - started) * 1e3)
    for what, found in (("wall", times), ("host processor", spent)):
        for name, each in found.items():
            low, middle = min(each), statistics.median(each)
            print(f"{what:<15} journal {name:<4} min {low:7.3f} ms   median {middle:7.3f} ms")
        pairs = zip(found["on"], found["off"], strict=True)
        difference = statistics.median(on - off for on, off in pairs)
        share = difference / statistics.median(times["off"])
        print(f"{what:<15} median of on - off: {difference * 1e3:.0f} µs, {share:.1%} of a call")


if __name__ == "__main__":
    main()
