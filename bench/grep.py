"""What `grep` costs over ripgrep itself, on 40 MB of text, interleaved so that noise hits both.

python bench/grep.py [rounds]
"""

import asyncio
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from skillpouch.arguments import check_arguments
from skillpouch.builtins.workspace.grep import search_with
from skillpouch.builtins.workspace.running import built_in_tools
from skillpouch.calls import Terms, ToolCall
from skillpouch.limits import Limits

GREP = next(tool for tool in built_in_tools() if tool.name == "grep")
FILES, LINES = 2000, 400
WORDS = ["alpha", "beta", "gamma", "delta", "request", "response", "import", "return", "index"]
QUESTIONS: dict[str, dict[str, Any]] = {
    "rare lines": {"pattern": r"needle_\d+"},
    "rare lines, -i": {"pattern": "NEEDLE", "-i": True},
    "files": {"pattern": r"needle_\d+", "output_mode": "files"},
    "nothing": {"pattern": "not to be found"},
}


def make_tree(folder: Path) -> int:
    chance = random.Random(1)
    total = 0
    for number in range(FILES):
        file = folder / f"part{number % 40}" / f"file{number}.py"
        file.parent.mkdir(exist_ok=True)
        lines = [" ".join(chance.choices(WORDS, k=8)) for _ in range(LINES)]
        if number % 20 == 0:
            lines[number % LINES] += f" needle_{number}"
        total += file.write_text("\n".join(lines) + "\n")
    return total


def bare(program: str, folder: Path, question: dict[str, Any]) -> float:
    words = ["--hidden", *(["-i"] if "-i" in question else []), "--no-config", "--line-number"]
    words += ["--files-with-matches"] if question.get("output_mode") == "files" else []
    started = time.perf_counter()
    subprocess.run(
        [program, *words, "-e", question["pattern"], "--", "./"],
        cwd=folder,
        capture_output=True,
        check=False,
    )
    return time.perf_counter() - started


async def ours(program: str, folder: Path, question: dict[str, Any]) -> float:
    started = time.perf_counter()
    call = ToolCall(
        tool=GREP,
        arguments=check_arguments(GREP, question),
        terms=Terms(workspace=folder),
        limits=Limits(),
    )
    await search_with(call, program)
    return time.perf_counter() - started


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        print(f"{make_tree(folder) / 1e6:.0f} MB in {FILES} files")
        asyncio.run(compare(shutil.which("rg"), folder, rounds))


async def compare(program: str | None, folder: Path, rounds: int) -> None:
    for what, question in QUESTIONS.items():
        python = min([await ours("", folder, question) for _ in range(2)])
        if program is None:
            print(f"{what:<16} python {python * 1e3:7.1f} ms; ripgrep is not installed")
            continue
        without: list[float] = []
        within: list[float] = []
        await ours(program, folder, question)
        for _ in range(rounds):
            without.append(bare(program, folder, question))
            within.append(await ours(program, folder, question))
        ratio = min(within) / min(without)
        median = statistics.median(within) / statistics.median(without)
        print(
            f"{what:<16} rg {min(without) * 1e3:6.1f} ms  grep {min(within) * 1e3:6.1f} ms  "
            f"{ratio:.2f} x (median {median:.2f} x)  python {python * 1e3:7.1f} ms"
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
