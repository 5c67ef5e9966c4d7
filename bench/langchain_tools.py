"""What LangChain adds to a call: a tool of Skillpouch against manager.call, and a peer's tool.

Interleaved in one run. The script is the same for all; the peer starts a fresh process for each
call and confines nothing.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from skillpouch import SkillManager
from skillpouch.integrations.langchain import get_skill_tools

SCRIPT = '"""Say ok."""\nimport json\nimport sys\n\njson.load(sys.stdin)\nprint("ok")\n'
MOST_MILLISECONDS = 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="skillpouch-bench-") as folder:
        race(Path(folder), options.rounds)


def race(folder: Path, rounds: int) -> None:
    skill, workspace = folder / "skills" / "say", folder / "work"
    (skill / "scripts").mkdir(parents=True)
    workspace.mkdir()
    (skill / "SKILL.md").write_text("---\nname: say\ndescription: Says ok.\n---\nSay it.\n")
    (skill / "scripts" / "ok.py").write_text(SCRIPT)
    (skill / "scripts" / "ok.py").chmod(0o755)
    manager = SkillManager(folder / "skills", workspace=workspace)
    (ours,) = get_skill_tools(manager, "say")
    theirs = peer_tool(folder / "skills")
    contenders: dict[str, Callable[[], object]] = {
        "manager.call": lambda: manager.call("say.ok", {"data": {}}),
        "LangChain tool": lambda: ours.invoke({"data": {}}),
        "peer's LangChain tool": lambda: theirs.invoke({"arguments": {}}),
    }
    times = measured(contenders, rounds)
    for name, taken in times.items():
        print(f"{name:24} min {min(taken):7.2f} ms   p50 {statistics.median(taken):7.2f} ms")
    pairs = zip(times["LangChain tool"], times["manager.call"], strict=True)
    added = statistics.median(tool - call for tool, call in pairs)
    verdict = "ok" if added <= MOST_MILLISECONDS else "TOO MUCH"
    print(f"LangChain adds {added:.2f} ms at p50 (at most {MOST_MILLISECONDS:g}): {verdict}")


def measured(contenders: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 5):
        for name, run in contenders.items():
            started = time.perf_counter()
            run()
            if number >= 5:  # the first rounds start what stays warm
                times[name].append((time.perf_counter() - started) * 1e3)
    return times


def peer_tool(skills: Path):  # noqa: ANN201 - the peer is only here when it is compared with
    from skillkit import SkillManager as PeerManager
    from skillkit.integrations.langchain import create_langchain_tools

    manager = PeerManager(project_skill_dir=skills)
    manager.discover()
    tools = create_langchain_tools(manager)
    return next(tool for tool in tools if tool.name != "say")


if __name__ == "__main__":
    main()
