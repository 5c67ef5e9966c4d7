"""Arguments as the words of a command line: unchanged, whatever they hold."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager, ToolResult
from skillpouch.errors import InvalidArgumentsError, SkillpouchError
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

MakeManager = Callable[..., SkillManager]
AWKWARD = [
    "",
    " ",
    "-",
    "--",
    "-x",
    "--name=y",
    "a b",
    "'",
    '"',
    "a\nb",
    "\n",
    "ü€😀",
    "$(id)",
    "`id`",
]
AWKWARD += [
    "*",
    "~",
    "\\",
    "@file",
    "a=b",
    "\t",
    "\r\n",
    "%s",
    "${HOME}",
    "; echo no",
    "-5",
    "null",
]


@pytest.fixture
def manager_of(write_skill: WriteSkill, tmp_path: Path) -> MakeManager:
    def make(files: dict[str, str]) -> SkillManager:
        (tmp_path / "workspace").mkdir()
        root = write_skill(files=files).parent
        return SkillManager(root, workspace=tmp_path / "workspace", cache=False)

    return make


def value(result: ToolResult) -> Any:
    assert result.outcome == "ok", result.content
    return result.structured


ARGPARSE = """
import argparse, json
parser = argparse.ArgumentParser()
parser.add_argument("first")
parser.add_argument("--name", "-n")
parser.add_argument("-s")
parser.add_argument("--many", action="append")
parser.add_argument("--list", nargs="*")
parser.add_argument("--on", action="store_true")
parser.add_argument("--count", type=int, default=1)
parser.add_argument("--ratio", type=float)
if __name__ == "__main__":
    print(json.dumps(vars(parser.parse_args())))
"""


@pytest.mark.parametrize("text", AWKWARD, ids=range(len(AWKWARD)))
def test_any_text_arrives_unchanged_as_flag_and_as_positional(
    text: str, manager_of: MakeManager
) -> None:
    manager = manager_of({"scripts/x.py": ARGPARSE})
    given: dict[str, Any] = {
        "first": text,
        "name": text,
        "s": text,
        "many": [text, text],
        "on": True,
    }

    try:
        result = manager.call("x", {**given, "count": -3, "ratio": -1e300})
    except InvalidArgumentsError:
        assert text == "--"  # argparse before 3.13 loses it, so it may be refused
    else:
        assert value(result) == {**given, "list": None, "count": -3, "ratio": -1e300}


SUBCOMMANDS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--loud", action="store_true")
commands = parser.add_subparsers(dest="command", required=True)
add = commands.add_parser("add")
add.add_argument("items", nargs="+")
add.add_argument("--to")
remove = commands.add_parser("remove")
remove.add_argument("--all", action="store_true")
if __name__ == "__main__":
    import json
    print(json.dumps(vars(parser.parse_args())))
"""


def test_a_sub_command_is_a_tool_of_its_own(manager_of: MakeManager) -> None:
    manager = manager_of({"scripts/x.py": SUBCOMMANDS})

    added = manager.call("demo.x.add", {"items": ["a b", "-c"], "to": "-d", "loud": True})
    removed = manager.call("demo.x.remove", {"all": True})

    assert value(added) == {"loud": True, "command": "add", "items": ["a b", "-c"], "to": "-d"}
    assert value(removed) == {"loud": False, "command": "remove", "all": True}


WORDS = {
    "x.sh": 'for word in "$@"; do printf "%s\\0" "$word"; done\n',
    "x.js": "process.stdout.write(process.argv.slice(2).map((w) => w + '\\0').join(''));\n",
    "x.rb": 'ARGV.each { |word| print word, "\\0" }\n',
    "x.pl": 'print "$_\\0" for @ARGV;\n',
    "x.py": "import sys\nprint(*sys.argv[1:], sep='\\0', end='\\0')\n",
}


@pytest.mark.parametrize("name", WORDS)
def test_words_arrive_unchanged_in_every_language(name: str, manager_of: MakeManager) -> None:
    manager = manager_of({f"scripts/{name}": WORDS[name]})

    result = manager.call("x", AWKWARD)

    assert manager.get_tool("x").convention == "argv"
    assert result.outcome == "ok", result.content
    assert result.stdout.split("\0")[:-1] == AWKWARD


def test_a_word_with_a_nul_is_refused_before_anything_runs(manager_of: MakeManager) -> None:
    with pytest.raises(InvalidArgumentsError, match="NUL"):
        manager_of({"scripts/x.sh": WORDS["x.sh"]}).call("x", ["a\0b"])


def test_a_word_too_long_for_any_command_line_is_an_error_and_not_a_lost_call(
    manager_of: MakeManager,
) -> None:
    with pytest.raises(SkillpouchError, match=r"(?i)too long"):
        manager_of({"scripts/x.sh": WORDS["x.sh"]}).call("x", ["x" * 1_000_000])


def test_parameters_of_a_manifest_are_positionals_in_their_order(manager_of: MakeManager) -> None:
    manifest = (
        "tools:\n  - name: x\n    script: x.sh\n    description: d\n"
        "    parameters:\n      - {name: b, type: string}\n      - {name: a, type: integer}\n"
    )
    files = {"scripts/x.sh": WORDS["x.sh"], "scripts/manifest.yml": manifest}

    result = manager_of(files).call("demo.x", {"a": 7, "b": "- b"})

    assert result.stdout == "- b\0007\0"
