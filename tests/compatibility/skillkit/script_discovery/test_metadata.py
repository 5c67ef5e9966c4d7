"""Script discovery, decision 3, FR-202 and FR-203.2: names, descriptions, parameters of scripts."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skillpouch import SkillManager, Tool

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

# Decision 3, option 3C, to the letter.
MANIFEST = """# scripts/manifest.yml
tools:
  - name: extract_text_from_pdf
    script: extract_text.py
    description: Extract text content from a PDF file
    parameters:
      - name: pdf_path
        type: string
        description: Path to the PDF file

  - name: compress_pdf
    script: compress.py
    description: Compress a PDF file to reduce size
    parameters:
      - name: input_path
        type: string
      - name: output_path
        type: string
"""


def skill_md(name: str, body: str = "Read this first.\n") -> str:
    return f"---\nname: {name}\ndescription: Does the work of {name}\n---\n{body}"


def discovered(root: Path) -> SkillManager:
    manager = SkillManager(root)
    manager.discover()
    return manager


def only_tool(manager: SkillManager, skill: str) -> Tool:
    [tool] = manager.get_skill_tools(skill)
    return tool


# Option 3A sends the bare file name. It cannot hold as a name for a model, where many skills have
# a `run.py`: Skillpouch gives `skill.tool` as id and `skill__tool` as wire name.
def test_fr_202_1_the_file_name_is_the_name_of_the_tool(write_files: WriteFiles) -> None:
    root = write_files(
        {
            "pdf/SKILL.md": skill_md("pdf"),
            "pdf/scripts/extract_text_from_pdf.py": PRINTS,
            "pdf/scripts/compress_pdf.py": PRINTS,
            "pdf/scripts/merge_pdfs.sh": ECHOES,
        }
    )

    tools = discovered(root).get_skill_tools("pdf")

    assert {tool.id: tool.name for tool in tools} == {
        "pdf.extract_text_from_pdf": "pdf__extract_text_from_pdf",
        "pdf.compress_pdf": "pdf__compress_pdf",
        "pdf.merge_pdfs": "pdf__merge_pdfs",
    }


# FR-202.2 takes the first line; Skillpouch takes the first paragraph, whose lines are joined.
# Here they are the same.
def test_fr_202_2_description_and_parameters_are_read_from_the_docstring_of_main(
    write_files: WriteFiles,
) -> None:
    root = write_files(
        {
            "pdf-processor/SKILL.md": skill_md("pdf-processor"),
            "pdf-processor/scripts/extract_text.py": EXTRACT_TEXT,
        }
    )

    tool = only_tool(discovered(root), "pdf-processor")

    assert tool.id == "pdf-processor.extract_text"
    assert tool.description == "Extract text content from a PDF file."
    assert tool.input_schema["properties"] == {
        "pdf_path": {"type": "string", "description": "Path to the PDF file to process"}
    }
    assert tool.input_schema["required"] == ["pdf_path"]
    assert tool.convention == "main"


def test_fr_202_3_a_manifest_names_describes_and_types_its_scripts(
    write_files: WriteFiles,
) -> None:
    root = write_files(
        {
            "pdf-processor/SKILL.md": skill_md("pdf-processor"),
            "pdf-processor/scripts/manifest.yml": MANIFEST,
            "pdf-processor/scripts/extract_text.py": EXTRACT_TEXT,
            "pdf-processor/scripts/compress.py": PRINTS,
            "pdf-processor/scripts/merge.py": PRINTS,
        }
    )

    tools = {tool.id: tool for tool in discovered(root).get_skill_tools("pdf-processor")}

    # merge.py is not in the manifest: it is still found, under its file name.
    assert {tool.id: tool.name for tool in tools.values()} == {
        "pdf-processor.extract_text_from_pdf": "extract_text_from_pdf",
        "pdf-processor.compress_pdf": "compress_pdf",
        "pdf-processor.merge": "pdf-processor__merge",
    }
    extract = tools["pdf-processor.extract_text_from_pdf"]
    assert extract.description == "Extract text content from a PDF file"
    assert extract.input_schema["properties"] == {
        "pdf_path": {"type": "string", "description": "Path to the PDF file"}
    }
    compress = tools["pdf-processor.compress_pdf"]
    assert compress.description == "Compress a PDF file to reduce size"
    # The order is the order of the positionals.
    assert list(compress.input_schema["properties"].items()) == [
        ("input_path", {"type": "string"}),
        ("output_path", {"type": "string"}),
    ]
    assert compress.convention == "argv"


def test_fr_202_4_a_script_that_says_nothing_gets_a_default_description(
    write_files: WriteFiles,
) -> None:
    root = write_files({"s/SKILL.md": skill_md("s"), "s/scripts/nodoc.py": PRINTS})

    assert only_tool(discovered(root), "s").description == "Execute nodoc"


# Decision 3: Manifest > Docstring > Filename.
@pytest.mark.parametrize(
    ("manifest", "docstring", "description"),
    [
        (
            "tools:\n  - name: run\n    script: run.py\n    description: Manifest\n",
            True,
            "Manifest",
        ),
        ("tools:\n  - name: run\n    script: run.py\n", True, "Docstring"),
        (None, True, "Docstring"),
        (None, False, "Execute run"),
    ],
    ids=["manifest", "manifest-without-description", "docstring", "file-name"],
)
def test_the_manifest_wins_over_the_docstring_and_the_docstring_over_the_file_name(
    write_files: WriteFiles, manifest: str | None, docstring: bool, description: str
) -> None:
    script = f'"""Docstring"""\n{PRINTS}' if docstring else PRINTS
    files = {"s/SKILL.md": skill_md("s"), "s/scripts/run.py": script}
    if manifest is not None:
        files["s/scripts/manifest.yml"] = manifest

    tool = only_tool(discovered(write_files(files)), "s")

    assert (tool.id, tool.description) == ("s.run", description)


def test_fr_203_2_two_scripts_of_one_skill_never_share_a_name(write_files: WriteFiles) -> None:
    root = write_files(
        {
            "s/SKILL.md": skill_md("s"),
            "s/scripts/convert.py": PRINTS,
            "s/scripts/convert.sh": ECHOES,
        }
    )

    tools = discovered(root).get_skill_tools("s")

    assert len({tool.id for tool in tools}) == len({tool.name for tool in tools}) == 2


def test_fr_203_2_two_skills_may_have_scripts_of_one_name(write_files: WriteFiles) -> None:
    root = write_files(
        {
            "a/SKILL.md": skill_md("a"),
            "a/scripts/run.py": PRINTS,
            "b/SKILL.md": skill_md("b"),
            "b/scripts/run.py": PRINTS,
        }
    )

    tools = discovered(root).tools

    assert sorted((tool.id, tool.name) for tool in tools) == [
        ("a.run", "a__run"),
        ("b.run", "b__run"),
    ]
