"""Script discovery, FR-203 and its acceptance criteria, through LangChain."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from langchain_core.tools import StructuredTool, ToolException

from skillpouch import SkillManager
from skillpouch.errors import SkillInvocationError
from skillpouch.integrations.langchain import create_langchain_tools, get_skill_tools

pytestmark = pytest.mark.slow

WriteFiles = Callable[[Mapping[str, str]], Path]

SKILL_MD = "---\nname: my-skill\ndescription: Mine\n---\nUse the scripts.\n"
GREET = 'import sys\nprint(f"Hello, {sys.argv[1]}!")\n'


def manager_with(write_files: WriteFiles, scripts: Mapping[str, str]) -> SkillManager:
    files = {f"skills/my-skill/scripts/{name}": text for name, text in scripts.items()}
    root = write_files({"skills/my-skill/SKILL.md": SKILL_MD} | files)
    (root / "work").mkdir()
    return SkillManager(root / "skills", workspace=root / "work")


# AC-1, FR-203.1, FR-204.1 in LangChain's words.
def test_ac_1_two_scripts_are_two_structured_tools_and_the_text_file_is_none(
    write_files: WriteFiles,
) -> None:
    scripts = {"tool1.py": "print(1)\n", "tool2.sh": "echo 2\n", "helper.txt": "no tool\n"}
    manager = manager_with(write_files, scripts)

    tools = get_skill_tools(manager, "my-skill")

    assert [tool.name for tool in tools] == ["my-skill__tool1", "my-skill__tool2"]
    assert all(isinstance(tool, StructuredTool) for tool in tools)


def test_ac_2_the_description_is_the_docstring_of_main(write_files: WriteFiles) -> None:
    script = '''
    def main(input_path: str):
        """Process a file and return results."""
        return input_path
    '''
    (tool,) = get_skill_tools(manager_with(write_files, {"process.py": script}), "my-skill")

    assert tool.description == "Process a file and return results."


async def test_ac_3_a_tool_invoked_with_text_gets_it_as_its_argument(
    write_files: WriteFiles,
) -> None:
    (greet,) = get_skill_tools(manager_with(write_files, {"greet.py": GREET}), "my-skill")

    assert greet.invoke("World") == "Hello, World!"
    assert await greet.ainvoke("World") == "Hello, World!"


def test_ac_4_a_failing_script_raises_with_its_stderr(write_files: WriteFiles) -> None:
    script = 'echo "no such page" >&2\nexit 1\n'
    (tool,) = get_skill_tools(manager_with(write_files, {"page.sh": script}), "my-skill")

    with pytest.raises(SkillInvocationError, match="no such page") as raised:
        tool.invoke({})

    assert isinstance(raised.value, ToolException)


def test_ac_5_invoke_skill_still_returns_text(write_files: WriteFiles) -> None:
    manager = manager_with(write_files, {"greet.py": GREET})

    assert "Use the scripts." in manager.invoke_skill("my-skill", "")


# FR-203.2
def test_names_are_unique_and_hold_skill_and_script(write_files: WriteFiles) -> None:
    manager = manager_with(write_files, {"greet.py": GREET, "part.sh": "echo bye\n"})

    names = [tool.name for tool in create_langchain_tools(manager, skills="none")]

    assert names == ["my-skill__greet", "my-skill__part"]


# FR-203.3, FR-203.4, FR-203.5
def test_a_tool_has_thirty_seconds_and_keeps_stdout_and_stderr(write_files: WriteFiles) -> None:
    script = "echo out\necho err >&2\n"
    (tool,) = get_skill_tools(manager_with(write_files, {"both.sh": script}), "my-skill")

    message = tool.invoke({"name": tool.name, "args": {}, "id": "1", "type": "tool_call"})

    result = message.artifact
    assert (message.content, result.stdout, result.stderr) == ("out", "out\n", "err\n")
    assert result.timeout_seconds == 30
