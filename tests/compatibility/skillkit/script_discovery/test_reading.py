"""Script discovery: scripts become tools, found without running them and asked for by skill.

Acceptance criteria 3 and 4 and the requirements FR-203.3 to FR-203.5 and FR-205.2 to FR-205.4 are
about running: they come with the run-a-tool suite (README.md beside this file). Names,
descriptions and parameters (FR-202, FR-203.2) have a file of their own.
"""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skillpouch import SkillManager, Tool
from skillpouch.errors import SkillNotFoundError

pytestmark = pytest.mark.slow

WriteFiles = Callable[[Mapping[str, str]], Path]

PRINTS = "print('done')\n"
ECHOES = "#!/bin/bash\necho done\n"

# Decision 3, option 3B, to the letter.
EXTRACT_TEXT = '''# scripts/extract_text.py
def main(pdf_path: str) -> str:
    """
    Extract text content from a PDF file.

    Args:
        pdf_path: Path to the PDF file to process

    Returns:
        Extracted text content
    """
    ...
'''


def skill_md(name: str, body: str = "Read this first.\n") -> str:
    return f"---\nname: {name}\ndescription: Does the work of {name}\n---\n{body}"


def discovered(root: Path) -> SkillManager:
    manager = SkillManager(root)
    manager.discover()
    return manager


def only_tool(manager: SkillManager, skill: str) -> Tool:
    [tool] = manager.get_skill_tools(skill)
    return tool


def test_ac_1_scripts_become_tools_and_a_text_file_is_ignored(write_files: WriteFiles) -> None:
    root = write_files(
        {
            "my-skill/SKILL.md": skill_md("my-skill"),
            "my-skill/scripts/tool1.py": PRINTS,
            "my-skill/scripts/tool2.sh": ECHOES,
            "my-skill/scripts/helper.txt": "Not a tool.\n",
        }
    )

    tools = discovered(root).get_skill_tools("my-skill")

    assert sorted(tool.id for tool in tools) == ["my-skill.tool1", "my-skill.tool2"]
    assert {tool.kind for tool in tools} == {"script"}


def test_ac_2_the_docstring_of_main_is_the_description(write_files: WriteFiles) -> None:
    root = write_files(
        {
            "my-skill/SKILL.md": skill_md("my-skill"),
            "my-skill/scripts/process.py": '''
                def main(input_path: str):
                    """Process a file and return results."""
                    ...
            ''',
        }
    )

    tool = only_tool(discovered(root), "my-skill")

    assert tool.description == "Process a file and return results."


# Reading's half of acceptance criterion 3: what is known of greet.py before it runs.
def test_ac_3_a_script_that_reads_its_argv_takes_a_list_of_strings(
    write_files: WriteFiles,
) -> None:
    root = write_files(
        {
            "my-skill/SKILL.md": skill_md("my-skill"),
            "my-skill/scripts/greet.py": 'import sys\nprint(f"Hello, {sys.argv[1]}!")\n',
        }
    )

    tool = only_tool(discovered(root), "my-skill")

    assert set(tool.input_schema["properties"]) == {"args"}
    assert tool.input_schema["properties"]["args"]["type"] == "array"
    assert tool.input_schema["properties"]["args"]["items"]["type"] == "string"
    assert tool.convention == "argv"


def test_ac_5_invoking_a_skill_still_gives_its_instructions_as_a_string(
    write_files: WriteFiles,
) -> None:
    body = "# PDF processor\n\nWhat to do: $ARGUMENTS\n"
    root = write_files(
        {
            "pdf-processor/SKILL.md": skill_md("pdf-processor", body),
            "pdf-processor/scripts/extract_text.py": EXTRACT_TEXT,
        }
    )
    manager = discovered(root)

    content = manager.invoke_skill("pdf-processor", "analyze report.pdf")

    assert isinstance(content, str)
    assert "What to do: analyze report.pdf" in content
    assert "$ARGUMENTS" not in content
    assert str(root / "pdf-processor") in content
    assert "description: Does the work of pdf-processor" not in content


def test_ac_5_arguments_without_a_place_of_their_own_are_appended(write_files: WriteFiles) -> None:
    manager = discovered(write_files({"plain/SKILL.md": skill_md("plain")}))

    content = manager.invoke_skill("plain", "analyze report.pdf")

    assert content.index("Read this first.") < content.index("analyze report.pdf")


def test_ac_5_a_loaded_skill_has_its_metadata_and_its_body(write_files: WriteFiles) -> None:
    root = write_files(
        {
            "plain/SKILL.md": (
                "---\nname: plain\ndescription: Plain words\nallowed-tools: Read\n"
                "version: 1.2.0\n---\n# Plain\n\nRead this first.\n"
            )
        }
    )

    skill = discovered(root).load_skill("plain")

    assert (skill.name, skill.description, skill.home) == ("plain", "Plain words", root / "plain")
    assert skill.metadata.version == "1.2.0"
    assert list(skill.metadata.allowed_tools or ()) == ["Read"]
    assert skill.body.strip() == "# Plain\n\nRead this first."


@pytest.mark.parametrize("method", ["get_skill", "load_skill", "invoke_skill", "get_skill_tools"])
def test_ac_5_a_skill_that_is_not_there_is_an_error_of_its_own(
    write_files: WriteFiles, method: str
) -> None:
    manager = discovered(write_files({"plain/SKILL.md": skill_md("plain")}))

    with pytest.raises(SkillNotFoundError, match="plian"):
        getattr(manager, method)("plian")


# Decision 2 recommends B1 or B2. FR-204.2 leaves only B2: content and tools are two calls.
def test_content_and_tools_are_asked_for_separately(write_files: WriteFiles) -> None:
    root = write_files(
        {
            "pdf-processor/SKILL.md": skill_md("pdf-processor"),
            "pdf-processor/scripts/extract_text.py": EXTRACT_TEXT,
        }
    )
    manager = discovered(root)

    content = manager.invoke_skill("pdf-processor", "analyze report.pdf")
    tools = manager.get_skill_tools("pdf-processor")

    assert isinstance(content, str)
    assert [type(tool) for tool in tools] == [Tool]


# FR-201.3 ignores "non-executable files and subdirectories". Skillpouch decides otherwise: no
# executable bit is needed, and subdirectories are flattened, for that is how skills are written.
def test_fr_201_scripts_are_found_by_extension_in_folders_too_and_need_no_executable_bit(
    write_files: WriteFiles,
) -> None:
    root = write_files(
        {
            "my-skill/SKILL.md": skill_md("my-skill"),
            "my-skill/scripts/one.py": PRINTS,
            "my-skill/scripts/two.sh": ECHOES,
            "my-skill/scripts/three.js": "console.log('done');\n",
            "my-skill/scripts/more/four.py": PRINTS,
            "my-skill/scripts/__init__.py": "",
            "my-skill/scripts/.hidden.py": PRINTS,
            "my-skill/scripts/data.json": "{}",
            "my-skill/scripts/README": "Not a tool.\n",
        }
    )
    for script in (root / "my-skill/scripts").glob("*.*"):
        script.chmod(0o644)

    tools = discovered(root).get_skill_tools("my-skill")

    assert sorted(tool.id for tool in tools) == [
        "my-skill.more-four",
        "my-skill.one",
        "my-skill.three",
        "my-skill.two",
    ]


def test_fr_201_4_a_skill_without_a_scripts_folder_has_no_tools_and_no_problems(
    write_files: WriteFiles,
) -> None:
    manager = discovered(write_files({"my-skill/SKILL.md": skill_md("my-skill")}))

    assert manager.get_skill_tools("my-skill") == []
    assert manager.problems == []


def test_fr_204_3_tools_are_read_once_and_not_at_every_call(write_files: WriteFiles) -> None:
    root = write_files({"s/SKILL.md": skill_md("s"), "s/scripts/run.py": PRINTS})
    manager = discovered(root)

    first = manager.get_skill_tools("s")
    shutil.rmtree(root / "s/scripts")
    second = manager.get_skill_tools("s")

    assert [tool.id for tool in first] == ["s.run"]
    assert second == first


# FR-205.1 is kept when reading already: a declaration cannot name a file outside its skill.
@pytest.mark.parametrize("script", ["../../outside.py", "../SKILL.py", "/etc/profile"])
def test_fr_205_1_a_manifest_cannot_reach_a_script_outside_its_skill(
    write_files: WriteFiles, script: str
) -> None:
    root = write_files(
        {
            "outside.py": PRINTS,
            "s/SKILL.md": skill_md("s"),
            "s/scripts/manifest.yml": (
                f"tools:\n  - name: evil\n    script: {script}\n    description: Reaches out\n"
                "  - name: run\n    script: run.py\n    description: Stays inside\n"
            ),
            "s/scripts/run.py": PRINTS,
        }
    )
    manager = discovered(root)

    tools = manager.get_skill_tools("s")

    assert [tool.id for tool in tools if tool.kind == "script"] == ["s.run"]
    assert any(script in problem.message for problem in manager.problems)


def test_fr_205_1_a_link_out_of_the_skill_is_no_script_of_it(write_files: WriteFiles) -> None:
    root = write_files(
        {"outside.py": PRINTS, "s/SKILL.md": skill_md("s"), "s/scripts/run.py": PRINTS}
    )
    (root / "s/scripts/evil.py").symlink_to(root / "outside.py")

    tools = discovered(root).get_skill_tools("s")

    assert [tool.id for tool in tools] == ["s.run"]
