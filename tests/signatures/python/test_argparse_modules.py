"""A parser that other modules of the same skill make or complete."""

from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager, Tool
from tests.conftest import WriteSkill

HELPER = """
import argparse
FORMATS = ("json", "text")

def add_common(parser):
    add_output(parser)
    parser.add_argument("--level", choices=FORMATS, default="text")

def add_output(target):
    target.add_argument("--output", "-o", required=True)

def make_parser(text):
    parser = argparse.ArgumentParser(description=text)
    add_common(parser)
    return parser
"""
HANDS_OVER = """
import argparse
IMPORT
def main():
    p = argparse.ArgumentParser(description="Go.")
    p.add_argument("name")
    ADD(p)
    print(sorted(vars(p.parse_args()).items()))
main()
"""
TAKES = """
IMPORT
parser = MAKE("Go.")
parser.add_argument("name")
print(sorted(vars(parser.parse_args()).items()))
"""


def tool_of(home: Path, workspace: Path) -> Tool:
    [tool] = SkillManager(home.parent, workspace=workspace, cache=False).tools
    return tool


def facts_of(tool: Tool) -> tuple[str, list[str], list[str]]:
    schema: dict[str, Any] = tool.input_schema
    return tool.convention or "", sorted(schema["properties"]), sorted(schema["required"])


TYPED = ("argv", ["level", "name", "output"], ["name", "output"])


@pytest.mark.parametrize(
    ("statement", "add", "file"),
    [
        ("from _common import add_common", "add_common", "scripts/_common.py"),
        ("from _common import add_common as add", "add", "scripts/_common.py"),
        ("import _common", "_common.add_common", "scripts/_common.py"),
        ("from scripts._common import add_common", "add_common", "scripts/_common.py"),
        ("from lib.words import add_common", "add_common", "lib/words.py"),
        ("from lib import add_common", "add_common", "scripts/lib/__init__.py"),
    ],
)
@pytest.mark.slow
def test_a_parser_that_is_handed_to_a_module_of_the_skill_is_followed(
    statement: str, add: str, file: str, write_skill: WriteSkill, tmp_path: Path
) -> None:
    script = HANDS_OVER.replace("IMPORT", statement).replace("ADD", add)
    home = write_skill(files={"scripts/x.py": script, file: HELPER})
    tool = tool_of(home, tmp_path)

    assert facts_of(tool) == TYPED
    said = "[('level', 'json'), ('name', 'a'), ('output', 'b')]"
    assert tool.invoke({"name": "a", "output": "b", "level": "json"}) == said


@pytest.mark.parametrize(
    ("statement", "make"),
    [("from _common import make_parser", "make_parser"), ("import _common as c", "c.make_parser")],
)
def test_a_parser_that_a_module_of_the_skill_makes_is_followed(
    statement: str, make: str, write_skill: WriteSkill, tmp_path: Path
) -> None:
    script = TAKES.replace("IMPORT", statement).replace("MAKE", make)
    home = write_skill(files={"scripts/x.py": script, "scripts/_common.py": HELPER})

    assert facts_of(tool_of(home, tmp_path)) == TYPED


@pytest.mark.parametrize(
    "helper",
    [
        "import os\ndef add_common(parser):\n    parser.add_argument(os.environ['FLAG'])\n",
        "from elsewhere import add_common\n",
        "def add_common(parser:\n",
        "",
    ],
)
def test_what_cannot_be_followed_there_stays_uncertain(
    helper: str, write_skill: WriteSkill, tmp_path: Path
) -> None:
    statement = "from _common import add_common"
    script = HANDS_OVER.replace("IMPORT", statement).replace("ADD", "add_common")
    home = write_skill(files={"scripts/x.py": script, "scripts/_common.py": helper})
    manager = SkillManager(home.parent, workspace=tmp_path, cache=False)

    tools = {tool.id: tool for tool in manager.tools}
    assert "name" not in tools["demo.x"].input_schema["properties"]
    assert any("a parser is passed to _common.add_common" in p.message for p in manager.problems)


def test_a_change_of_the_module_is_a_change_of_the_tool(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    statement = "from lib.words import add_common"
    script = HANDS_OVER.replace("IMPORT", statement).replace("ADD", "add_common")
    home = write_skill(files={"scripts/x.py": script, "lib/words.py": HELPER})
    before = [tool.input_schema for tool in SkillManager(home.parent, workspace=tmp_path).tools]

    (home / "lib/words.py").write_text(HELPER.replace("--level", "--amount-of-detail"))
    [after] = SkillManager(home.parent, workspace=tmp_path).tools

    assert "level" in before[0]["properties"]
    assert "amount_of_detail" in after.input_schema["properties"]
