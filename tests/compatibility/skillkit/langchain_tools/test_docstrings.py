"""LangChain tools §4 and §11.1: what a script says about itself in its first comment or docstring.

The document's own regular expressions cannot hold: the group for line comments is lazy and always
matches nothing, and blank lines are dropped before "stop at blank line" looks for them. The text
around them says what was meant, and Skillpouch repeats it: the first paragraph, cut at 256.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.scripts import extract_docstring
from skillpouch.skills import ScriptMetadata

pytestmark = pytest.mark.slow

WriteFiles = Callable[[Mapping[str, str]], Path]

# The document's examples only define a function; a file in which nothing runs is no tool.
CALLED = {"py": "extract()\n", "sh": "convert_pdf\n", "js": "extract();\n"}
PYTHON_LINE_COMMENT = "# Extract text from PDF file\ndef extract():\n    pass\n"
PYTHON_DOUBLE_QUOTES = '''"""
Extract text from PDF file.
Supports multiple formats including PDF, DOCX, TXT.
Returns extracted text in plain text format.
"""
def extract():
    pass
'''
PYTHON_SINGLE_QUOTES = "'''\nExtract text from PDF file\n'''\ndef extract():\n    pass\n"
PYTHON_NOTHING = "def extract():\n    pass\n"
BASH_LINE_COMMENTS = """#!/bin/bash
# Convert PDF to image format
# Supports PNG, JPG, GIF output formats

convert_pdf() {
    # Implementation
}
"""
BASH_COLON_QUOTE = """#!/bin/bash
: '
Convert PDF to image format
Supports PNG, JPG, GIF output formats
'

convert_pdf() {
    # Implementation
}
"""
JAVASCRIPT_LINE_COMMENT = """// Extract metadata from files
function extract() {
    // Implementation
}
"""
JAVASCRIPT_JSDOC = """/**
 * Extract metadata from files
 * Supports PDF, DOCX, TXT formats
 */
function extract() {
    // Implementation
}
"""


@pytest.mark.parametrize(
    ("script_type", "text", "description"),
    [
        pytest.param(
            "python", PYTHON_LINE_COMMENT, "Extract text from PDF file", id="python-line-comment"
        ),
        pytest.param(
            "python",
            PYTHON_DOUBLE_QUOTES,
            "Extract text from PDF file. Supports multiple formats including PDF, DOCX, TXT."
            " Returns extracted text in plain text format.",
            id="python-double-quotes",
        ),
        pytest.param(
            "python", PYTHON_SINGLE_QUOTES, "Extract text from PDF file", id="python-single-quotes"
        ),
        pytest.param("python", PYTHON_NOTHING, "", id="python-nothing"),
        pytest.param(
            "bash",
            BASH_LINE_COMMENTS,
            "Convert PDF to image format Supports PNG, JPG, GIF output formats",
            id="bash-line-comments",
        ),
        pytest.param(
            "bash",
            BASH_COLON_QUOTE,
            "Convert PDF to image format Supports PNG, JPG, GIF output formats",
            id="bash-colon-quote",
        ),
        pytest.param(
            "javascript",
            JAVASCRIPT_LINE_COMMENT,
            "Extract metadata from files",
            id="javascript-line-comment",
        ),
        pytest.param(
            "javascript",
            JAVASCRIPT_JSDOC,
            "Extract metadata from files Supports PDF, DOCX, TXT formats",
            id="javascript-jsdoc",
        ),
        pytest.param("ruby", "=begin\nRotate pages\n=end\nputs 1\n", "Rotate pages", id="ruby"),
        pytest.param("ruby", "# Rotate pages\nputs 1\n", "Rotate pages", id="ruby-line-comment"),
        pytest.param(
            "perl", "#!/usr/bin/perl\n# Count pages\nprint 1;\n", "Count pages", id="perl"
        ),
    ],
)
def test_the_first_comment_block_describes_a_script_of_any_language(
    tmp_path: Path, script_type: str, text: str, description: str
) -> None:
    script = tmp_path / "script"
    script.write_text(text, encoding="utf-8")

    assert extract_docstring(script, script_type) == description


@pytest.mark.parametrize(
    ("file_name", "script_type", "text", "description"),
    [
        ("test.py", "python", '"""Extract text from PDF"""\n', "Extract text from PDF"),
        ("test.sh", "bash", "#!/bin/bash\n# Convert PDF to images\n", "Convert PDF to images"),
        ("nodoc.py", "python", "print('no words')\n", ""),
    ],
    ids=["python", "bash", "no-docstring"],
)
def test_the_three_unit_tests_of_the_seed_hold(
    tmp_path: Path, file_name: str, script_type: str, text: str, description: str
) -> None:
    script = tmp_path / file_name
    script.write_text(text, encoding="utf-8")

    assert extract_docstring(script, script_type) == description


def test_a_shebang_line_is_not_part_of_the_description(tmp_path: Path) -> None:
    script = tmp_path / "extract.py"
    script.write_text('#!/usr/bin/env python3\n"""Extract text from PDF."""\n', encoding="utf-8")

    assert extract_docstring(script, "python") == "Extract text from PDF."


def test_only_the_first_paragraph_is_taken(tmp_path: Path) -> None:
    script = tmp_path / "extract.py"
    script.write_text('"""Extract text.\n\nUsage: extract.py FILE\n"""\n', encoding="utf-8")

    assert extract_docstring(script, "python") == "Extract text."


def test_a_description_is_cut_at_256_characters(tmp_path: Path) -> None:
    script = tmp_path / "long.py"
    script.write_text(f'"""{"x" * 300}"""\n', encoding="utf-8")

    assert extract_docstring(script, "python") == "x" * 256


def test_a_script_that_is_not_there_has_no_description(tmp_path: Path) -> None:
    assert extract_docstring(tmp_path / "missing.py", "python") == ""


def test_a_script_that_is_not_text_has_no_description(tmp_path: Path) -> None:
    script = tmp_path / "binary.py"
    script.write_bytes(b"\xff\xfe\xfa\x00\x01")

    assert extract_docstring(script, "python") == ""


def test_a_script_of_an_unknown_language_has_no_description(tmp_path: Path) -> None:
    script = tmp_path / "main.cob"
    script.write_text("# Extract text\n", encoding="utf-8")

    assert extract_docstring(script, "cobol") == ""


def test_script_metadata_holds_the_four_facts_of_the_roadmap(tmp_path: Path) -> None:
    script = tmp_path / "extract.py"
    script.write_text('"""Extract text from PDF."""\n', encoding="utf-8")

    metadata = ScriptMetadata(
        name="extract",
        path=script,
        script_type="python",
        description=extract_docstring(script, "python"),
    )

    assert (metadata.name, metadata.path, metadata.script_type, metadata.description) == (
        "extract",
        script,
        "python",
        "Extract text from PDF.",
    )


# §4.4 falls back to an empty description. That cannot hold for a tool: FR-202.4 asks for
# a default and Skillpouch decides for `Execute {script}`; extract_docstring still answers "".
def test_a_tool_whose_script_says_nothing_still_has_a_description(write_files: WriteFiles) -> None:
    root = write_files(
        {
            "pdf-extractor/SKILL.md": (
                "---\nname: pdf-extractor\ndescription: Extracts text from PDF files\n---\n"
            ),
            "pdf-extractor/scripts/extract.py": PYTHON_NOTHING + CALLED["py"],
        }
    )
    manager = SkillManager(root)
    manager.discover()

    tools = manager.get_skill_tools("pdf-extractor")

    assert [tool.description for tool in tools] == ["Execute extract"]


@pytest.mark.parametrize(
    ("file_name", "text", "description"),
    [
        ("extract.py", PYTHON_LINE_COMMENT, "Extract text from PDF file"),
        ("extract.py", PYTHON_SINGLE_QUOTES, "Extract text from PDF file"),
        (
            "convert.sh",
            BASH_COLON_QUOTE,
            "Convert PDF to image format Supports PNG, JPG, GIF output formats",
        ),
        (
            "extract.js",
            JAVASCRIPT_JSDOC,
            "Extract metadata from files Supports PDF, DOCX, TXT formats",
        ),
    ],
    ids=["line-comment", "single-quotes", "colon-quote", "jsdoc"],
)
def test_a_tool_is_described_by_its_script(
    write_files: WriteFiles, file_name: str, text: str, description: str
) -> None:
    root = write_files(
        {
            "pdf-extractor/SKILL.md": (
                "---\nname: pdf-extractor\ndescription: Extracts text from PDF files\n---\n"
            ),
            f"pdf-extractor/scripts/{file_name}": text + CALLED[file_name.rpartition(".")[2]],
        }
    )
    manager = SkillManager(root)
    manager.discover()

    tools = manager.get_skill_tools("pdf-extractor")

    assert [tool.description for tool in tools] == [description]


@pytest.mark.parametrize(
    ("script_type", "text"),
    [
        ("python", 'import os\n\n"""Extract text."""\n'),
        ("python", "print 'Python 2'\n'''Extract text.'''\n"),
        ("bash", "set -e\n: '\nExtract text.\n'\n"),
        ("javascript", "const fs = require('fs');\n\n/**\n * Extract text.\n */\n"),
        ("ruby", "require 'json'\n=begin\nExtract text.\n=end\n"),
    ],
)
def test_a_docstring_below_other_code_is_found_as_the_seeds_own_function_does(
    tmp_path: Path, script_type: str, text: str
) -> None:
    script = tmp_path / "script"
    script.write_text(text)

    assert extract_docstring(script, script_type) == "Extract text."
