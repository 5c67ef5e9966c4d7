"""What a call through the front door costs: manager.call against a bare subprocess.run.

Interleaved in one run; the minimum and the median of the rounds are compared.
"""

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from skillpouch import SkillManager

if TYPE_CHECKING:
    from collections.abc import Callable

SCRIPTS = {
    "ok.sh": "#!/bin/bash\n# Say ok.\necho ok\n",
    "okpy.py": '"""Say ok."""\nprint("ok")\n',
    "handle.py": '"""Say ok."""\n\n\ndef handler(args):\n    return {"ok": True}\n',
    "handle.mjs": "/** Say ok. */\nexport default async () => ({ ok: true });\n",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as folder:
        race(Path(folder), options.rounds)


def race(folder: Path, rounds: int) -> None:
    scripts, workspace = folder / "skills/s/scripts", folder / "work"
    scripts.mkdir(parents=True)
    workspace.mkdir()
    (folder / "skills/s/SKILL.md").write_text("---\nname: s\ndescription: d\n---\n")
    for name, text in SCRIPTS.items():
        (scripts / name).write_text(text)
    manager = SkillManager(folder / "skills", workspace=workspace)
    contenders: dict[str, tuple[str, Callable[[], object]]] = {
        "bash, bare": ("", lambda: bare("bash", scripts / "ok.sh")),
        "bash, call": ("bash, bare", lambda: manager.call("s.ok")),
        "bash, acall": ("bash, bare", lambda: asyncio.run(manager.acall("s.ok"))),
        "python, bare": ("", lambda: bare(sys.executable, scripts / "okpy.py")),
        "python, call": ("python, bare", lambda: manager.call("s.okpy")),
        "python handler, call": ("python, bare", lambda: manager.call("s.handle-py")),
        "node handler, call": ("", lambda: manager.call("s.handle")),
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, (_, run) in contenders.items():
            started = time.perf_counter()
            run()
            if number:  # the first round starts what stays warm
                times[name].append((time.perf_counter() - started) * 1e3)
    for name, (against, _) in contenders.items():
        low, middle = min(times[name]), statistics.median(times[name])
        line = f"{name:<24} min {low:8.2f} ms   median {middle:8.2f} ms"
        if against:
            other = times[against]
            line += f"   x {low / min(other):.2f} / {middle / statistics.median(other):.2f}"
        print(line)


def bare(program: str, script: Path) -> None:
    subprocess.run([program, str(script)], capture_output=True, check=True)


if __name__ == "__main__":
    main()
