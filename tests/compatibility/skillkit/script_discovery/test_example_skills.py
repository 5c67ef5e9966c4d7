"""The example skills that the document names for testing: calculator and file-processor."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skillpouch import SkillManager

pytestmark = pytest.mark.slow

WriteFiles = Callable[[Mapping[str, str]], Path]

CALCULATOR = {
    "calculator/SKILL.md": """
        ---
        name: calculator
        description: Adds and multiplies numbers
        ---
        # Calculator

        Use `add` and `multiply` instead of counting in your head.
    """,
    "calculator/scripts/add.py": '''
        """Add numbers."""
        import argparse


        def build_parser():
            parser = argparse.ArgumentParser(description=__doc__)
            parser.add_argument("numbers", nargs="+", type=float, help="what to add")
            parser.add_argument("--round", type=int, default=2, help="digits to keep")
            return parser


        if __name__ == "__main__":
            options = build_parser().parse_args()
            print(round(sum(options.numbers), options.round))
    ''',
    "calculator/scripts/multiply.py": '''
        def main(left: float, right: float = 1.0) -> float:
            """Multiply two numbers.

            Args:
                left: The first factor
                right: The second factor
            """
            return left * right
    ''',
}

FILE_PROCESSOR = {
    "file-processor/SKILL.md": """
        ---
        name: file-processor
        description: Reads and writes text files
        ---
        Read a file with `read_file`, write one with `write_file`.
    """,
    "file-processor/scripts/read_file.py": '''
        """Read a text file."""
        import sys

        print(open(sys.argv[1]).read())
    ''',
    "file-processor/scripts/write_file.py": '''
        """Write a text file."""
        import json
        import sys

        order = json.load(sys.stdin)
        open(order["path"], "w").write(order["text"])
    ''',
}


def test_the_calculator_is_two_typed_tools(write_files: WriteFiles) -> None:
    manager = SkillManager(write_files(CALCULATOR))
    manager.discover()

    tools = {tool.id: tool for tool in manager.get_skill_tools("calculator")}

    assert set(tools) == {"calculator.add", "calculator.multiply"}
    add = tools["calculator.add"]
    assert (add.description, add.convention) == ("Add numbers.", "argv")
    assert add.input_schema["required"] == ["numbers"]
    numbers = add.input_schema["properties"]["numbers"]
    assert (numbers["type"], numbers["items"]["type"]) == ("array", "number")
    assert numbers["description"] == "what to add"
    rounding = add.input_schema["properties"]["round"]
    assert (rounding["type"], rounding["default"]) == ("integer", 2)
    multiply = tools["calculator.multiply"]
    assert (multiply.description, multiply.convention) == ("Multiply two numbers.", "main")
    assert multiply.input_schema["required"] == ["left"]
    assert multiply.input_schema["properties"] == {
        "left": {"type": "number", "description": "The first factor"},
        "right": {"type": "number", "description": "The second factor", "default": 1.0},
    }


def test_the_file_processor_is_one_argv_tool_and_one_free_form_tool(
    write_files: WriteFiles,
) -> None:
    manager = SkillManager(write_files(FILE_PROCESSOR))
    manager.discover()

    tools = {tool.id: tool for tool in manager.get_skill_tools("file-processor")}

    assert {
        tool_id: (tool.description, tool.convention, set(tool.input_schema["properties"]))
        for tool_id, tool in tools.items()
    } == {
        "file-processor.read_file": ("Read a text file.", "argv", {"args"}),
        "file-processor.write_file": ("Write a text file.", "stdin", {"data"}),
    }


def test_both_skills_live_side_by_side(write_files: WriteFiles) -> None:
    manager = SkillManager(write_files(CALCULATOR | FILE_PROCESSOR))
    manager.discover()

    assert sorted((skill.name, skill.description) for skill in manager.list_skills()) == [
        ("calculator", "Adds and multiplies numbers"),
        ("file-processor", "Reads and writes text files"),
    ]
    assert len(manager.tools) == 4
