"""LangChain tools: 1 + N tools, names, inputs, answers, errors, blocking and awaited.

`naming="dotted"` where the document asserts dots; Skillpouch sends wire names by default, since
OpenAI and Anthropic reject dots.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool, ToolException

from skillpouch import Limits, SkillManager
from skillpouch.errors import (
    ScriptExecutionError,
    ScriptTimeoutError,
    SkillInvocationError,
    ToolRestrictionError,
)
from skillpouch.integrations.langchain import RawJsonInput, SkillInput, create_langchain_tools

pytestmark = pytest.mark.slow

WriteFiles = Callable[[Mapping[str, str]], Path]

READS_STDIN = "import json\nimport sys\n\nprint(json.dumps(json.load(sys.stdin)))\n"


def skill_md(name: str, more: str = "") -> str:
    return f"---\nname: {name}\ndescription: Does the work of {name}\n{more}---\nRead this first.\n"


PDF_EXTRACTOR = {
    "skills/pdf-extractor/SKILL.md": skill_md("pdf-extractor"),
    "skills/pdf-extractor/scripts/extract.py": f'"""Extract text from PDF file."""\n{READS_STDIN}',
    "skills/pdf-extractor/scripts/convert.sh": "#!/bin/bash\n# Convert PDF to image format\ncat\n",
    "skills/pdf-extractor/scripts/utils/parse.py": f"# Parse extracted text\n{READS_STDIN}",
}


def discovered(root: Path, limits: Limits | None = None) -> SkillManager:
    (root / "work").mkdir()
    manager = SkillManager(skills_dir=root / "skills", workspace=root / "work", limits=limits)
    manager.discover()
    return manager


def named(tools: list[StructuredTool], name: str) -> StructuredTool:
    return next(tool for tool in tools if tool.name == name)


def dotted(manager: SkillManager) -> list[StructuredTool]:
    return [*create_langchain_tools(manager, naming="dotted")]


def failing(write_files: WriteFiles, script: str, more: str = "") -> StructuredTool:
    files = {"skills/pdf/SKILL.md": skill_md("pdf", more), "skills/pdf/scripts/extract.sh": script}
    return named(dotted(discovered(write_files(files), Limits(timeout_seconds=3))), "pdf.extract")


# §1.2: five skills, one of them with three scripts.
def test_five_skills_with_three_scripts_give_eight_tools(write_files: WriteFiles) -> None:
    others = ["csv-parser", "data-cleaner", "mail-writer", "text-counter"]
    root = write_files(
        PDF_EXTRACTOR | {f"skills/{name}/SKILL.md": skill_md(name) for name in others}
    )

    tools = create_langchain_tools(discovered(root))

    assert len(tools) == 8
    assert all(isinstance(tool, StructuredTool) for tool in tools)


# §2.2 and the example of §7.1.
def test_the_tools_of_a_skill_are_named_as_the_seed_names_them(write_files: WriteFiles) -> None:
    root = write_files(PDF_EXTRACTOR | {"skills/csv-parser/SKILL.md": skill_md("csv-parser")})

    names = [tool.name for tool in dotted(discovered(root))]

    assert names == [
        "csv-parser",
        "pdf-extractor",
        "pdf-extractor.convert",
        "pdf-extractor.extract",
        "pdf-extractor.utils-parse",
    ]


# §2.2, the rows of `data-tools:csv`.
def test_a_skill_of_a_plugin_keeps_its_colon(write_files: WriteFiles) -> None:
    root = write_files(
        {
            "skills/data-tools/.claude-plugin/plugin.json": '{"name": "data-tools"}',
            "skills/data-tools/skills/csv/SKILL.md": skill_md("csv"),
            "skills/data-tools/skills/csv/scripts/process.py": READS_STDIN,
        }
    )

    assert [tool.name for tool in dotted(discovered(root))] == [
        "data-tools:csv",
        "data-tools:csv.process",
    ]


# §1.3 and §9.1: a skill without scripts is one tool, as it always was.
def test_a_skill_without_scripts_is_one_tool_named_after_it(write_files: WriteFiles) -> None:
    root = write_files({"skills/csv-parser/SKILL.md": skill_md("csv-parser")})

    (tool,) = create_langchain_tools(discovered(root))

    assert (tool.name, tool.description) == ("csv-parser", "Does the work of csv-parser")
    assert tool.args_schema is SkillInput


# §3.3, §9.2, §11.1: the two models.
def test_the_models_of_the_seed_hold_what_they_are_given() -> None:
    assert RawJsonInput(data={"file": "/tmp/doc.pdf"}).data == {"file": "/tmp/doc.pdf"}
    assert RawJsonInput(data="just a string").data == "just a string"
    assert RawJsonInput().data is None
    assert SkillInput().arguments == ""


# §3: an untyped script takes `data`. §8.3 wants no typed fields at all; Skillpouch types a
# script whenever it can be known.
def test_a_script_that_says_nothing_of_its_input_takes_free_form_json(
    write_files: WriteFiles,
) -> None:
    extract = named(dotted(discovered(write_files(PDF_EXTRACTOR))), "pdf-extractor.extract")
    data = {"file_path": "/tmp/doc.pdf", "options": {"format": "text"}}

    assert extract.args_schema is RawJsonInput
    assert json.loads(extract.invoke({"data": data})) == data
    assert json.loads(extract.invoke({})) == {}
    assert json.loads(extract.invoke({"data": None})) == {}


# §4: descriptions come from the scripts.
def test_descriptions_are_the_first_comment_of_each_script(write_files: WriteFiles) -> None:
    tools = dotted(discovered(write_files(PDF_EXTRACTOR)))

    assert {tool.name: tool.description for tool in tools} == {
        "pdf-extractor": "Does the work of pdf-extractor",
        "pdf-extractor.extract": "Extract text from PDF file.",
        "pdf-extractor.convert": "Convert PDF to image format",
        "pdf-extractor.utils-parse": "Parse extracted text",
    }


# §5.1 and §5.2: the wrapper of a success.
def test_a_success_is_a_tool_message_without_error(write_files: WriteFiles) -> None:
    tool = failing(write_files, 'echo "Extracted text from document..."\n')

    message = tool.invoke({"name": tool.name, "args": {}, "id": "abc123", "type": "tool_call"})

    assert isinstance(message, ToolMessage)
    assert (message.tool_call_id, message.content, message.status) == (
        "abc123",
        "Extracted text from document...",
        "success",
    )


# §5.3: the wrapper of a failure, with the very text of the document.
def test_a_failure_is_a_tool_message_with_error_and_stderr(write_files: WriteFiles) -> None:
    tool = failing(write_files, 'echo "Error: Invalid PDF format" >&2\nexit 1\n')

    message = tool.invoke({"name": tool.name, "args": {}, "id": "abc123", "type": "tool_call"})

    assert (message.tool_call_id, message.content, message.status) == (
        "abc123",
        "Script execution failed with exit code 1\nError: Invalid PDF format",
        "error",
    )


# §5.4: `ToolError` does not exist; ToolException is what LangChain has.
def test_every_error_of_a_script_is_langchains_and_skillpouchs(write_files: WriteFiles) -> None:
    tool = failing(write_files, "exit 42\n")

    with pytest.raises(ToolException) as raised:
        tool.invoke({})

    assert isinstance(raised.value, ScriptExecutionError)
    assert isinstance(raised.value, SkillInvocationError)
    assert raised.value.exit_code == 42


def test_a_timeout_is_propagated(write_files: WriteFiles) -> None:
    tool = failing(write_files, "sleep 600\n")

    with pytest.raises(ScriptTimeoutError, match="Script timed out after 3s") as raised:
        tool.invoke({})

    assert isinstance(raised.value, ToolException)
    assert raised.value.exit_code == 124


def test_a_restriction_is_propagated(write_files: WriteFiles) -> None:
    tool = failing(write_files, "echo ran\n", "allowed-tools: [Read]\n")

    with pytest.raises(ToolRestrictionError) as raised:
        tool.invoke({})

    assert isinstance(raised.value, ToolException)
    assert "Tool 'Bash' not allowed for skill 'pdf'. Allowed: ['Read']" in str(raised.value)


# §6: blocking and awaited; §6.3: no tool runs the script of another.
async def test_blocking_and_awaited_calls_of_every_tool_give_the_same(
    write_files: WriteFiles,
) -> None:
    tools = dotted(discovered(write_files(PDF_EXTRACTOR)))
    scripts = [tool for tool in tools if "." in tool.name]

    awaited = await asyncio.gather(*(tool.ainvoke({"data": {"n": 1}}) for tool in scripts))
    blocking = [tool.invoke({"data": {"n": 1}}) for tool in scripts]

    assert [json.loads(text) for text in (*awaited, *blocking)] == [{"n": 1}] * 6
    assert all(tool.coroutine is not None and tool.func is not None for tool in tools)


# §6.1: the prompt tool.
async def test_the_prompt_tool_gives_what_invoke_skill_gives(write_files: WriteFiles) -> None:
    manager = discovered(write_files(PDF_EXTRACTOR))
    prompt = named(dotted(manager), "pdf-extractor")

    expected = manager.invoke_skill("pdf-extractor", "report.pdf")

    assert prompt.invoke({"arguments": "report.pdf"}) == expected
    assert await prompt.ainvoke({"arguments": "report.pdf"}) == expected
    assert prompt.invoke({}) == manager.invoke_skill("pdf-extractor")


# §11.2, word by word but for `naming`.
def test_script_tool_invocation(write_files: WriteFiles) -> None:
    manager = discovered(write_files(PDF_EXTRACTOR))
    tools = create_langchain_tools(manager, naming="dotted")
    script_tool = next(t for t in tools if "." in t.name)

    result = script_tool.invoke({"data": {"file": "test.pdf"}})

    assert result
    assert isinstance(result, str)
