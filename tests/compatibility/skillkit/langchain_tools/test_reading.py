"""LangChain tools: several tools from one skill, their names and their free-form input.

The LangChain objects and everything that executes a script are listed in README.md beside this
file; docstrings and errors have files of their own.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.scripts import generate_script_tool_name

pytestmark = pytest.mark.slow

WriteFiles = Callable[[Mapping[str, str]], Path]

READS_STDIN = "import json\nimport sys\n\nprint(json.load(sys.stdin))\n"


def skill_md(name: str, body: str = "Read this first.\n") -> str:
    return f"---\nname: {name}\ndescription: Does the work of {name}\n---\n{body}"


PDF_EXTRACTOR = {
    "pdf-extractor/SKILL.md": skill_md("pdf-extractor"),
    "pdf-extractor/scripts/extract.py": f'"""Extract text from PDF file."""\n{READS_STDIN}',
    "pdf-extractor/scripts/convert.sh": "#!/bin/bash\n# Convert PDF to image format\ncat\n",
    "pdf-extractor/scripts/utils/parse.py": f"# Parse extracted text\n{READS_STDIN}",
}


def discovered(root: Path) -> SkillManager:
    manager = SkillManager(root)
    manager.discover()
    return manager


# §1.2 counts 8 tools for 5 skills because each skill is a prompt tool as well. Prompt tools are
# made by the integrations (Skillpouch, wire names); reading gives 5 skills and 3 tools.
def test_five_skills_of_which_one_has_three_scripts_give_five_skills_and_three_tools(
    write_files: WriteFiles,
) -> None:
    others = ["csv-parser", "data-cleaner", "mail-writer", "text-counter"]
    root = write_files(
        PDF_EXTRACTOR | {f"{name}/SKILL.md": skill_md(name) for name in others},
    )

    manager = discovered(root)

    assert sorted(skill.name for skill in manager.list_skills()) == sorted(
        [*others, "pdf-extractor"]
    )
    assert sorted(tool.id for tool in manager.tools) == [
        "pdf-extractor.convert",
        "pdf-extractor.extract",
        "pdf-extractor.utils-parse",
    ]


@pytest.mark.parametrize(
    ("skill_name", "script", "tool_name"),
    [
        ("pdf-extractor", "extract.py", "pdf-extractor.extract"),
        ("pdf-extractor", "convert.sh", "pdf-extractor.convert"),
        ("pdf-extractor", "utils/parse.py", "pdf-extractor.utils-parse"),
        ("data-tools:csv", "process.py", "data-tools:csv.process"),
        ("data-tools:csv", "utils/validate.js", "data-tools:csv.utils-validate"),
        ("pdf-extractor", "my_script.sh", "pdf-extractor.my_script"),
        ("pdf-extractor", "scripts/extract.py", "pdf-extractor.extract"),
        ("pdf-extractor", "scripts/utils/parse.py", "pdf-extractor.utils-parse"),
        ("pdf-extractor", "utils\\parse.py", "pdf-extractor.utils-parse"),
    ],
)
def test_a_script_tool_is_named_after_its_skill_and_its_path(
    skill_name: str, script: str, tool_name: str
) -> None:
    assert generate_script_tool_name(skill_name, script) == tool_name


# §2.1 "LangChain Compatible: accepts any string as name" cannot hold for a model: OpenAI and
# Anthropic reject dots. Skillpouch keeps the document's name as the id, and sends a wire name.
def test_discovered_tools_carry_the_seeds_name_as_id_and_a_wire_name_without_dots(
    write_files: WriteFiles,
) -> None:
    manager = discovered(write_files(PDF_EXTRACTOR))

    tools = manager.get_skill_tools("pdf-extractor")

    assert {tool.id: tool.name for tool in tools} == {
        "pdf-extractor.extract": "pdf-extractor__extract",
        "pdf-extractor.convert": "pdf-extractor__convert",
        "pdf-extractor.utils-parse": "pdf-extractor__utils-parse",
    }


def test_an_id_splits_at_its_first_dot_into_skill_and_script(write_files: WriteFiles) -> None:
    manager = discovered(write_files(PDF_EXTRACTOR))

    parts = [tool.id.split(".", 1) for tool in manager.get_skill_tools("pdf-extractor")]

    assert sorted(parts) == [
        ["pdf-extractor", "convert"],
        ["pdf-extractor", "extract"],
        ["pdf-extractor", "utils-parse"],
    ]


def test_a_skill_of_a_plugin_keeps_its_colon_in_the_ids_of_its_tools(
    write_files: WriteFiles,
) -> None:
    root = write_files(
        {
            "data-tools/.claude-plugin/plugin.json": '{"name": "data-tools"}',
            "data-tools/skills/csv/SKILL.md": skill_md("csv"),
            "data-tools/skills/csv/scripts/process.py": READS_STDIN,
            "data-tools/skills/csv/scripts/utils/validate.js": (
                "process.stdin.pipe(process.stdout);\n"
            ),
        }
    )

    manager = discovered(root)
    tools = manager.get_skill_tools("data-tools:csv")

    assert "data-tools:csv" in manager.list_skills(include_qualified=True)
    assert sorted(tool.id for tool in tools) == [
        "data-tools:csv.process",
        "data-tools:csv.utils-validate",
    ]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool.name) for tool in tools)


def test_scripts_may_lie_in_folders_but_not_without_bound(write_files: WriteFiles) -> None:
    root = write_files(
        {
            "deep/SKILL.md": skill_md("deep"),
            "deep/scripts/a/b/c/found.py": READS_STDIN,
            "deep/scripts/a/b/c/d/e/f/g/lost.py": READS_STDIN,
        }
    )

    tools = discovered(root).get_skill_tools("deep")

    assert [tool.id for tool in tools] == ["deep.a-b-c-found"]


# RawJsonInput is a pydantic model, and skillpouch imports no framework: the same promise is kept by
# the input schema. `extra="allow"`, which §3.1 shows beside it, was the alternative not taken.
@pytest.mark.parametrize("tool_id", ["pdf-extractor.extract", "pdf-extractor.convert"])
def test_an_untyped_script_takes_one_optional_field_called_data_that_may_be_anything(
    write_files: WriteFiles, tool_id: str
) -> None:
    manager = discovered(write_files(PDF_EXTRACTOR))

    [tool] = [tool for tool in manager.tools if tool.id == tool_id]

    assert tool.input_schema["type"] == "object"
    assert set(tool.input_schema["properties"]) == {"data"}
    # No keyword that would refuse a value: an object, a list and "just a string" all fit.
    assert set(tool.input_schema["properties"]["data"]) <= {"description", "default", "title"}
    assert "data" not in tool.input_schema.get("required", [])
    assert (tool.kind, tool.convention) == ("script", "stdin")


# §8.3 rejected typed fields per script. Skillpouch decides otherwise: "typed whenever it can be
# known"; only what cannot be known is `data`.
def test_a_script_with_argparse_is_typed_and_not_free_form(write_files: WriteFiles) -> None:
    root = write_files(
        {
            "reader/SKILL.md": skill_md("reader"),
            "reader/scripts/read.py": """
                import argparse

                parser = argparse.ArgumentParser(description="Read a file")
                parser.add_argument("file_path", help="Path to file")
                parser.add_argument("--format", default="text", help="Output format")

                if __name__ == "__main__":
                    print(parser.parse_args())
            """,
        }
    )

    [tool] = discovered(root).get_skill_tools("reader")

    assert set(tool.input_schema["properties"]) == {"file_path", "format"}
    assert tool.input_schema["required"] == ["file_path"]
    assert tool.convention == "argv"


def test_a_skill_knows_its_scripts_without_being_invoked(write_files: WriteFiles) -> None:
    manager = discovered(write_files(PDF_EXTRACTOR))

    scripts = manager.get_skill("pdf-extractor").detected_scripts

    assert sorted(
        (script.name, Path(script.path).name, script.script_type, script.description)
        for script in scripts
    ) == [
        ("convert", "convert.sh", "bash", "Convert PDF to image format"),
        ("extract", "extract.py", "python", "Extract text from PDF file."),
        ("utils-parse", "parse.py", "python", "Parse extracted text"),
    ]


def test_a_skill_without_scripts_has_no_tools_and_can_still_be_invoked(
    write_files: WriteFiles,
) -> None:
    manager = discovered(write_files({"csv-parser/SKILL.md": skill_md("csv-parser")}))

    assert list(manager.get_skill("csv-parser").detected_scripts) == []
    assert manager.get_skill_tools("csv-parser") == []
    assert "Read this first." in manager.invoke_skill("csv-parser")


def test_a_manager_takes_its_one_root_as_skills_dir(write_files: WriteFiles) -> None:
    manager = SkillManager(skills_dir=write_files(PDF_EXTRACTOR))
    manager.discover()

    script_tool = next(tool for tool in manager.tools if "." in tool.id)

    assert script_tool.skill == "pdf-extractor"


async def test_discovering_and_invoking_give_the_same_when_awaited(
    write_files: WriteFiles,
) -> None:
    root = write_files(PDF_EXTRACTOR)
    blocking = discovered(root)
    awaited = SkillManager(root)

    await awaited.adiscover()
    content = await awaited.ainvoke_skill("pdf-extractor", "report.pdf")

    assert [skill.name for skill in awaited.list_skills()] == ["pdf-extractor"]
    assert content == blocking.invoke_skill("pdf-extractor", "report.pdf")


def test_reading_a_script_never_runs_it(write_files: WriteFiles, tmp_path: Path) -> None:
    trace = tmp_path / "it-ran"
    root = write_files(
        {
            "eager/SKILL.md": skill_md("eager"),
            "eager/scripts/touch.py": f"import pathlib\n\npathlib.Path({str(trace)!r}).touch()\n",
            "eager/scripts/touch_too.sh": f"#!/bin/bash\ntouch '{trace}'\n",
        }
    )

    assert len(discovered(root).get_skill_tools("eager")) == 2
    assert not trace.exists()


@pytest.mark.parametrize(
    "written", ["Bash Read", "Bash, Read", "[Bash, Read]", "\n  - Bash\n  - Read"]
)
def test_the_allowed_tools_of_a_skill_are_a_list(write_files: WriteFiles, written: str) -> None:
    root = write_files(
        {"s/SKILL.md": f"---\nname: s\ndescription: Says it\nallowed-tools: {written}\n---\nText\n"}
    )

    metadata = discovered(root).get_skill("s").metadata

    assert list(metadata.allowed_tools or ()) == ["Bash", "Read"]


# §5.5 raises for every skill whose allowed tools lack "Bash", also when the field is absent. That
# cannot hold, or no plain skill could run anything: absent means no restriction (Skillpouch).
def test_a_skill_that_says_nothing_about_allowed_tools_is_not_reported(
    write_files: WriteFiles,
) -> None:
    manager = discovered(write_files(PDF_EXTRACTOR))

    assert len(manager.tools) == 3
    assert not manager.get_skill("pdf-extractor").metadata.allowed_tools
    assert not any("allowed-tools" in problem.message for problem in manager.problems)


def test_a_skill_that_leaves_bash_out_is_reported_when_its_scripts_are_read(
    write_files: WriteFiles,
) -> None:
    restricted = "---\nname: s\ndescription: Says it\nallowed-tools: Read\n---\nText\n"
    manager = discovered(write_files({"s/SKILL.md": restricted, "s/scripts/run.py": READS_STDIN}))

    assert [tool.id for tool in manager.tools] == ["s.run"]
    assert any("allowed-tools" in problem.message for problem in manager.problems)
