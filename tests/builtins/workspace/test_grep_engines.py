"""ripgrep against the Python that stands in for it, over generated trees and patterns."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from skillpouch.builtins.workspace.grep import search_with
from skillpouch.errors import ToolFaultError
from tests.builtins.workspace.test_grep import call_of
from tests.effort import all_but_exhaustive

pytestmark = pytest.mark.slow

RIPGREP = shutil.which("rg") or ""
WORDS = ["foo", "bar", "Foo", "x1", "_y", "é", "ß", "漢字", "a.b", "(z)", "", " ", "\t", "\r"]
NAMES = ["a.py", "b.txt", "c.log", "Makefile", "d.min.js", "ü.txt", ".hidden", "e f.py", "g"]
FOLDERS = ["src", "build", "docs", ".config", "node_modules", "src/deep", "docs/build"]
RULES = [
    "*.log", "build/", "/build", "node_modules", "!c.log", "docs/*", "**/deep", "src/**", "#x",
    "*.[tl]*", "d.*.js", "/src/a.py", "!*.py", "build/*.py", "ü*", "g ", "\\!x", "docs/**/g", "?",
]  # fmt: skip
PIECES = ["foo", "bar", "f.o", r"\w+", r"\d", "[a-f]+", "(?:foo|bar)", r"\bx", "é",
          "[^o]", "o{1,2}", "b?ar", r"\S", "漢", r"\.", "(?i:FOO)", "[[:alpha:]]+", ".*",
          ""]  # fmt: skip
GLOBS = ["*.py", "*.{py,txt}", "src/**", "!*.log", "docs/*", "**/g", "!build", "[a-c].*", "/a.py"]


def make_tree(workspace: Path, chance: random.Random) -> None:
    for folder in ["", *chance.sample(FOLDERS, 4)]:
        (workspace / folder).mkdir(parents=True, exist_ok=True)
        if chance.random() < 0.5:
            rules = chance.sample(RULES, chance.randint(1, 4))
            (workspace / folder / ".gitignore").write_text("\n".join(rules) + "\n")
        for name in chance.sample(NAMES, 5):
            lines = [
                " ".join(chance.choices(WORDS, k=chance.randint(0, 4)))
                for _ in range(chance.randint(0, 8))
            ]
            text = "\n".join(lines) + chance.choice(["", "\n", "\0", "\n\n"])
            data = text.encode(chance.choice(["utf-8"] * 6 + ["utf-16", "utf-8-sig"]))
            (workspace / folder / name).write_bytes(data)


def make_question(chance: random.Random) -> dict[str, Any]:
    question: dict[str, Any] = {
        "pattern": chance.choice(["", "", "^", r"^\s*"])
        + "".join(chance.choices(PIECES, k=chance.randint(1, 3)))
        + chance.choice(["", "", "$"]),
        "output_mode": chance.choice(["content", "content", "files", "count"]),
        "head_limit": chance.choice([3, 250]),
    }
    extras: dict[str, Any] = {
        "-i": True,
        "context": chance.randint(0, 2),
        "-A": 1,
        "-B": 2,
        "type": chance.choice(["py", "js", "make"]),
        "glob": chance.choice(GLOBS),
        "path": chance.choice(["src", "build", "docs/build", "a.py", "."]),
        "offset": chance.randint(0, 4),
        "multiline": True,
    }
    for name in chance.sample(sorted(extras), chance.randint(0, 3)):
        question[name] = extras[name]
    if "[^o]" in question["pattern"]:  # in ripgrep 13 it matches past the last line end
        question.pop("multiline", None)
    return question


async def ask(workspace: Path, question: dict[str, Any], program: str) -> Any:
    try:
        answer, _ = await search_with(call_of(workspace, question), program)
    except ToolFaultError as error:
        return error.kind
    return answer.text, answer.structured


@pytest.mark.timeout(300)
@pytest.mark.skipif(not RIPGREP, reason="ripgrep is not installed: apt install ripgrep")
@pytest.mark.parametrize("seed", all_but_exhaustive(range(12), {0, 1, 2}))
async def test_both_engines_find_the_same(seed: int, workspace: Path) -> None:
    chance = random.Random(seed)
    make_tree(workspace, chance)

    for _ in range(15):
        question = make_question(chance)
        by_ripgrep = await ask(workspace, question, RIPGREP)
        by_python = await ask(workspace, question, "")
        assert by_python == by_ripgrep, question
