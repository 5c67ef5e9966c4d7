"""A3S Box, API reference: ToolExecutor and SessionManager, with the document's own skills."""

from pathlib import Path

import pytest

from skillpouch import SessionManager, SkillManager, ToolExecutor
from skillpouch.builtins.workspace.running import built_in_tools
from skillpouch.errors import UnknownToolError

pytestmark = pytest.mark.slow

BUILT_INS = ["bash", "read", "write", "edit", "grep", "glob", "ls"]

# "Script Tools", with the frontmatter of "SKILL.md Format" around it.
PROCESS_DATA = """---
name: my-skill
description: A custom skill with multiple tools
version: 1.0.0
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
---

# Skill Documentation

Markdown content describing the skill and how to use it.
"""
# "Example 1: PDF Processing Skill".
PDF_PARSER = """---
name: pdf-parser
description: Parse and extract text from PDF documents
tools:
  - name: pdf-extract
    description: Extract text from PDF
    backend:
      type: binary
      url: https://tools.example.com/pdf-extract
      args_template: "${file_path}"
    parameters:
      type: object
      properties:
        file_path:
          type: string
          description: Path to PDF file
      required:
        - file_path
---
"""
# "Example 2: API Integration Skill".
WHISPER = """---
name: openai-whisper
description: Transcribe audio using OpenAI Whisper API
tools:
  - name: transcribe
    description: Transcribe audio file
    backend:
      type: http
      url: https://api.openai.com/v1/audio/transcriptions
      method: POST
      headers:
        Authorization: "Bearer ${env:OPENAI_API_KEY}"
      body_template: |
        {
          "file": "${audio_file}",
          "model": "whisper-1"
        }
    parameters:
      type: object
      properties:
        audio_file:
          type: string
      required:
        - audio_file
---
"""
# "Example 3: Data Processing Skill".
DATA_PROCESSOR = """---
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
---
"""


async def test_the_tool_executor_as_the_seed_uses_it(tmp_path: Path) -> None:
    executor = ToolExecutor(built_in_tools(), workspace=tmp_path)

    tool_names = executor.register_skill_tools(PROCESS_DATA)
    definitions = executor.definitions()
    result = await executor.execute("process-data", {"data": "abc"})
    removed = executor.unregister_tools(tool_names)

    assert tool_names == ["process-data"]
    assert [definition["name"] for definition in definitions] == [*BUILT_INS, "process-data"]
    assert definitions[-1] == {
        "name": "process-data",
        "description": "Process data with Python",
        "parameters": {
            "type": "object",
            "properties": {"data": {"type": "string"}},
            "required": ["data"],
        },
    }
    assert (result.exit_code, result.output) == (0, "Result: ABC")
    assert removed == ["process-data"]
    # "Tool definitions are automatically updated when skills are activated/deactivated".
    assert [definition["name"] for definition in executor.definitions()] == BUILT_INS


# "All 7 built-in tools work exactly as before".
def test_built_in_tools_stay_whatever_is_registered_and_unregistered(tmp_path: Path) -> None:
    executor = ToolExecutor(built_in_tools(), workspace=tmp_path)
    shadowing = PROCESS_DATA.replace("name: process-data", "name: bash")

    names = executor.register_skill_tools(shadowing)

    assert names == ["my-skill__bash"]
    assert executor.execute_sync("bash", {"command": "echo mine"}).output == "mine"
    assert executor.unregister_tools([*BUILT_INS, *names]) == ["my-skill__bash"]
    assert [definition["name"] for definition in executor.definitions()] == BUILT_INS


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (PDF_PARSER, ["pdf-extract"]),
        (WHISPER, ["transcribe"]),
        (DATA_PROCESSOR, ["chunk-text"]),
    ],
    ids=["pdf-parser", "openai-whisper", "data-processor"],
)
def test_every_example_skill_registers_its_tools(text: str, names: list[str]) -> None:
    executor = ToolExecutor()

    assert executor.register_skill_tools(text) == names
    assert executor.unregister_tools(names) == names


async def test_the_session_manager_as_the_seed_uses_it() -> None:
    session_manager = SessionManager(builtins=True)
    session_id = await session_manager.create_session()

    tool_names = await session_manager.use_skill(session_id, "data-processor", DATA_PROCESSOR)
    result = await session_manager.execute(
        session_id, "chunk-text", {"text": "a" * 2500, "chunk_size": 1000}
    )
    skills = await session_manager.list_active_skills(session_id)
    removed = await session_manager.remove_skill(session_id, "data-processor")

    assert tool_names == ["chunk-text"]
    assert result.output == "Chunk 1: 1000 chars\nChunk 2: 1000 chars\nChunk 3: 500 chars"
    assert skills == ["data-processor"]
    assert removed == ["chunk-text"]
    assert await session_manager.list_active_skills(session_id) == []
    names = [definition["name"] for definition in await session_manager.definitions(session_id)]
    assert names == BUILT_INS
    with pytest.raises(UnknownToolError):
        await session_manager.execute(session_id, "chunk-text", {"text": "a"})
    await session_manager.destroy_session(session_id)


async def test_several_skills_are_active_side_by_side() -> None:
    session_manager = SessionManager()
    session_id = await session_manager.create_session()

    for name, text in [("pdf-parser", PDF_PARSER), ("my-skill", PROCESS_DATA)]:
        await session_manager.use_skill(session_id, name, text)

    assert await session_manager.list_active_skills(session_id) == ["pdf-parser", "my-skill"]
    names = [definition["name"] for definition in await session_manager.definitions(session_id)]
    assert names == ["pdf-extract", "process-data"]
    await session_manager.destroy_session(session_id)


# Script discovery FR-204.3: "System SHOULD cache discovered tools to avoid re-scanning …".
def test_tools_are_read_once_and_given_again(tmp_path: Path) -> None:
    home = tmp_path / "my-skill"
    home.mkdir()
    (home / "SKILL.md").write_text(PROCESS_DATA)
    manager = SkillManager(tmp_path)

    first, second = (manager.get_skill_tools("my-skill") for _ in range(2))

    assert first[0] is second[0]
