"""A3S Box, inline scripts: its examples as they stand."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager
from skillpouch.errors import InvalidArgumentsError
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

PROCESS = """\
name: processing
description: Process.
tools:
  - name: process-data
    description: Process data with Python
    backend:
      type: script
      interpreter: python3
      script: |
        import os
        import json

        args = json.loads(os.environ.get('TOOL_ARGS', '{}'))
        data = args.get('data', '')

        # Process the data
        result = data.upper()
        print(f"Result: {result}")
    parameters:
      type: object
      properties:
        data:
          type: string
      required:
        - data
"""
CHUNKS = """\
name: data-processor
description: Process and analyze data
tools:
  - name: chunk-text
    description: Split text into chunks
    backend:
      type: script
      interpreter: python3
      script: |
        import os
        import json

        args = json.loads(os.environ.get('TOOL_ARGS', '{}'))
        text = args.get('text', '')
        chunk_size = int(args.get('chunk_size', 1000))

        chunks = [text[i:i+chunk_size] for i in range(0, len(text), chunk_size)]

        for i, chunk in enumerate(chunks):
            print(f"Chunk {i+1}: {len(chunk)} chars")
    parameters:
      type: object
      properties:
        text:
          type: string
        chunk_size:
          type: integer
      required:
        - text
"""
FORMAT = """\
name: my-skill
description: A custom skill with multiple tools
version: 1.0.0
tools:
  - name: tool1
    description: First tool
    backend:
      type: binary|http|script
      # backend-specific fields...
    parameters:
      type: object
      properties:
        # JSON Schema for parameters
      required: []

  - name: tool2
    # ... more tools
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def test_the_process_data_example_gives_its_result(write_skill: WriteSkill, work: Path) -> None:
    manager = SkillManager(write_skill("processing", PROCESS).parent, workspace=work)

    result = manager.call("process-data", {"data": "hello"})

    assert manager.problems == []
    assert (result.output, result.exit_code) == ("Result: HELLO", 0)
    assert result.timeout_seconds == 60
    with pytest.raises(InvalidArgumentsError, match="data"):
        manager.call("process-data", {})


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"text": "x" * 2500}, ["1: 1000", "2: 1000", "3: 500"]),
        ({"text": "abcdef", "chunk_size": 4}, ["1: 4", "2: 2"]),
        ({"text": ""}, []),
    ],
)
def test_the_chunk_text_example_gives_its_chunks(
    write_skill: WriteSkill, work: Path, arguments: dict[str, Any], lines: list[str]
) -> None:
    manager = SkillManager(write_skill("data-processor", CHUNKS).parent, workspace=work)

    result = manager.call("chunk-text", arguments)

    assert result.output.splitlines() == [f"Chunk {line} chars" for line in lines]


# The document's table of interpreters, and how each reads an argument by its own variable.
READING = {
    "bash": 'printf "%s" "$TOOL_ARG_CITY"',
    "sh": 'printf "%s" "$TOOL_ARG_CITY"',
    "zsh": 'printf "%s" "$TOOL_ARG_CITY"',
    "python": "import os; print(os.environ['TOOL_ARG_CITY'], end='')",
    "python3": "import os; print(os.environ['TOOL_ARG_CITY'], end='')",
    "node": "process.stdout.write(process.env.TOOL_ARG_CITY)",
}


@pytest.mark.parametrize("interpreter", READING)
def test_each_interpreter_of_the_seed_reads_its_arguments(
    interpreter: str, write_skill: WriteSkill, work: Path
) -> None:
    if not interpreter.startswith("python") and shutil.which(interpreter) is None:
        pytest.skip(f"{interpreter} is not installed")
    front = (
        "name: cities\ndescription: Cities.\ntools:\n  - name: say\n    backend:\n"
        f"      type: script\n      interpreter: {interpreter}\n      script: |\n"
        f"        {READING[interpreter]}\n"
        "    parameters: {type: object, properties: {city: {type: string}}}\n"
    )
    manager = SkillManager(write_skill("cities", front).parent, workspace=work)

    assert manager.call("say", {"city": "Köln am Rhein"}).output == "Köln am Rhein"


def test_the_outline_of_a_skill_is_told_what_it_leaves_open(
    write_skill: WriteSkill, work: Path
) -> None:
    # It is no example but an outline: `binary|http|script` is no type.
    manager = SkillManager(write_skill("my-skill", FORMAT).parent, workspace=work)

    tools = manager.get_skill_tools("my-skill")

    assert manager.get_skill("my-skill").metadata.version == "1.0.0"
    assert [(tool.id, tool.kind) for tool in tools] == [("my-skill.tool2", "stub")]
    messages = [problem.message for problem in manager.problems]
    assert any("'binary|http|script' is not one of binary, http, script" in m for m in messages)
