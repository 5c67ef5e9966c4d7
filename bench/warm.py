"""What a warm call costs, all layers on: against the bare system, a cold interpreter and a peer.

Everything is interleaved in one run; minimum and median of the rounds are compared. "waiting"
leaves a pause before the call, so that a child waits for it; "forked" comes right after another.
"""

import argparse
import asyncio
import contextlib
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kitbag import SkillManager

PAUSE_SECONDS = 0.006
NODE_PAUSE_SECONDS = 0.15
IMPORTS = "import argparse, json, logging, subprocess, urllib.request\n"
SCRIPTS = {
    "handle.py": '"""Say ok."""\n\n\ndef handler(args):\n    return {"ok": True}\n',
    "bare.py": 'import json\nimport sys\n\njson.load(sys.stdin)\nprint(json.dumps({"ok": True}))\n',
    "ordinary.py": f'"""Say ok."""\n{IMPORTS}print("ok")\n',
    "frames.py": '"""Say ok."""\nimport pandas\n\nprint(len(pandas.DataFrame({"a": [1]})))\n',
    "handle.mjs": "/** Say ok. */\nexport default async () => ({ ok: true });\n",
    "cold.mjs": "console.log(JSON.stringify({ ok: true }));\n",
}
Contenders = dict[str, tuple[float, Callable[[], object]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kitbag-bench-") as name:
        folder = Path(name)
        scripts, manager = set_up(folder)
        report(race(python_contenders(scripts, manager, folder), options.rounds))
        report(race(import_contenders(scripts, manager), max(10, options.rounds // 5)))
        report(race(node_contenders(scripts, manager), max(10, options.rounds // 5)))
        crowd(scripts, manager)


def set_up(folder: Path) -> tuple[Path, SkillManager]:
    scripts, workspace = folder / "skills/s/scripts", folder / "work"
    scripts.mkdir(parents=True)
    workspace.mkdir()
    (folder / "skills/s/SKILL.md").write_text("---\nname: s\ndescription: d\n---\nDo it.\n")
    for name, text in SCRIPTS.items():
        (scripts / name).write_text(text)
    # The peer looks for python3 on PATH: give it this interpreter, and not a shim before it.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return scripts, SkillManager(folder / "skills", workspace=workspace)


def python_contenders(scripts: Path, manager: SkillManager, folder: Path) -> Contenders:
    return {
        "/bin/true": (0, spawn_true),
        "skillkit": (0, skillkit_call(folder)),
        "cold python": (0, lambda: bare(sys.executable, scripts / "bare.py")),
        "(another call)": (0, lambda: handle(manager)),
        "handler, forked": (0, lambda: handle(manager)),
        "handler, waiting": (PAUSE_SECONDS, lambda: handle(manager)),
    }


def import_contenders(scripts: Path, manager: SkillManager) -> Contenders:
    return {
        "cold imports": (0, lambda: bare(sys.executable, scripts / "ordinary.py")),
        "imports, waiting": (PAUSE_SECONDS, lambda: warm(manager, "s.ordinary")),
        "cold pandas": (0, lambda: bare(sys.executable, scripts / "frames.py")),
        "pandas, waiting": (PAUSE_SECONDS * 5, lambda: warm(manager, "s.frames")),
    }


def node_contenders(scripts: Path, manager: SkillManager) -> Contenders:
    return {
        "cold node": (NODE_PAUSE_SECONDS, lambda: bare("node", scripts / "cold.mjs")),
        "node, waiting": (NODE_PAUSE_SECONDS, lambda: warm(manager, "s.handle")),
    }


def spawn_true() -> None:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


def bare(program: str, script: Path) -> None:
    subprocess.run([program, str(script)], input=b"{}", capture_output=True, check=True)


def handle(manager: SkillManager) -> None:
    assert manager.call("s.handle-py").structured == {"ok": True}


def warm(manager: SkillManager, tool: str) -> None:
    result = manager.call(tool)
    assert result.outcome == "ok", result
    assert result.warm, result.cold_because


def skillkit_call(folder: Path) -> Callable[[], object]:
    from skillkit import SkillManager as Peer

    with contextlib.redirect_stdout(io.StringIO()):
        peer = Peer(project_skill_dir=folder / "skills")
        peer.discover()
    return lambda: peer.execute_skill_script("s", "bare", {"a": 1})


def race(contenders: Contenders, rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 4):
        for name, (pause, run) in contenders.items():
            time.sleep(pause)
            started = time.perf_counter()
            run()
            if number >= 4:  # the first rounds start what stays warm, and teach it
                times[name].append((time.perf_counter() - started) * 1e3)
    return times


COMPARED = {
    "handler, forked": (("/bin/true", False), ("skillkit", True), ("cold python", True)),
    "handler, waiting": (("/bin/true", False), ("skillkit", True), ("cold python", True)),
    "imports, waiting": (("cold imports", True),),
    "pandas, waiting": (("cold pandas", True),),
    "node, waiting": (("cold node", True),),
}


def report(times: dict[str, list[float]]) -> None:
    for name, taken in times.items():
        low, middle = min(taken), statistics.median(taken)
        line = f"{name:<18} min {low:8.2f} ms   median {middle:8.2f} ms"
        for other, faster in COMPARED.get(name, ()):
            pair = (low / min(times[other]), middle / statistics.median(times[other]))
            low_ratio, middle_ratio = (1 / each if faster else each for each in pair)
            word = "faster than" if faster else "x"
            line += f"   {low_ratio:.1f} / {middle_ratio:.1f} {word} {other}"
        print(line)


def crowd(scripts: Path, manager: SkillManager, count: int = 200) -> None:
    """Run many calls at once, against as many unconfined interpreters."""

    async def one_bare() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(scripts / "bare.py"), stdin=-1, stdout=-1
        )
        await process.communicate(b"{}")

    async def one_warm() -> None:
        assert (await manager.acall("s.handle-py")).structured == {"ok": True}

    async def all_of(one: Callable[[], object]) -> float:
        started = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(count)))  # type: ignore[arg-type]
        return time.perf_counter() - started

    asyncio.run(all_of(one_warm))  # as many places as it wants
    pairs = [(asyncio.run(all_of(one_bare)), asyncio.run(all_of(one_warm))) for _ in range(3)]
    bare_seconds, warm_seconds = min(a for a, _ in pairs), min(b for _, b in pairs)
    print(
        f"{count} at once      bare {bare_seconds * 1e3:.0f} ms   warm {warm_seconds * 1e3:.0f} ms"
        f"   {bare_seconds / warm_seconds:.1f} times the calls per second"
    )


if __name__ == "__main__":
    main()
