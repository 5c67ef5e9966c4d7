"""Facts about scripts under the names of earlier libraries: metadata, docstrings, tool names."""

import re
from itertools import dropwhile, takewhile
from pathlib import Path

from skillpouch.signatures import read_signature
from skillpouch.signatures.shebang import Language, source_text
from skillpouch.skills import ScriptMetadata, Skill
from skillpouch.tools import Script, script_tool_name, tool_id
from skillpouch.untrusted_files import SCRIPT_BYTES, CannotReadError, read_whole

__all__ = ["ScriptMetadata", "detect_scripts", "extract_docstring", "generate_script_tool_name"]

_TYPES: dict[str, Language] = {
    "python": "python",
    "bash": "shell",
    "sh": "shell",
    "zsh": "shell",
    "shell": "shell",
    "javascript": "javascript",
    "node": "javascript",
    "typescript": "typescript",
    "ruby": "ruby",
    "perl": "perl",
}

_JSDOC = re.compile(r"^/\*\*(.*?)\*/", re.MULTILINE | re.DOTALL)
_BLOCKS: dict[Language, tuple[re.Pattern[str], ...]] = {
    "python": tuple(
        re.compile(rf"^{quotes}(.*?){quotes}", re.MULTILINE | re.DOTALL)
        for quotes in ('"""', "'''")
    ),
    "shell": (re.compile(r"^:\s*'(.*?)'", re.MULTILINE | re.DOTALL),),
    "javascript": (_JSDOC,),
    "typescript": (_JSDOC,),
    "ruby": (re.compile(r"^=begin(.*?)=end", re.MULTILINE | re.DOTALL),),
}
_MARKS = re.compile(r"^\s*[#*/]*\s*")
_LONGEST = 256


def generate_script_tool_name(skill_name: str, script_path: str) -> str:
    """Return the id of a script's tool: `("pdf", "scripts/utils/parse.py")` → `pdf.utils-parse`."""
    return tool_id(skill_name, script_tool_name(str(script_path)))


def extract_docstring(script_path: Path, script_type: str) -> str:
    """Return the first paragraph of a script's own description, "" if it has none."""
    language = _TYPES.get(script_type.lower())
    if language is None:
        return ""
    try:
        data = read_whole(str(script_path), SCRIPT_BYTES).data
    except CannotReadError:
        return ""
    text = source_text(data, language)
    read = read_signature(text, language, filename=Path(script_path).name)
    return read.interface.description or _first_block(text, language)


def _first_block(text: str, language: Language) -> str:
    """Return the first block of text, such as a docstring, that begins a line anywhere in a script.

    The readers of signatures expect a docstring where the language puts it. People also write one
    below their imports, and earlier libraries found it there.
    """
    for pattern in _BLOCKS.get(language, ()):
        found = pattern.search(text)
        if found is not None:
            lines = [_MARKS.sub("", line).strip() for line in found[1].strip().split("\n")]
            paragraph = takewhile(bool, dropwhile(lambda line: not line, lines))
            return " ".join(paragraph)[:_LONGEST]
    return ""


def detect_scripts(skill: Skill) -> list[ScriptMetadata]:
    """List the scripts of a skill that became tools without being declared."""
    from skillpouch.declarations.skill_tools import read_skill_tools

    found: dict[Path, ScriptMetadata] = {}
    for tool in read_skill_tools(skill).tools:
        if isinstance(tool.runs, Script) and tool.declared_in == "scripts":
            path = tool.runs.path.relative_to(skill.home)
            found.setdefault(
                path,
                ScriptMetadata(
                    name=script_tool_name(path.as_posix()),
                    path=path,
                    script_type=_type_of(tool.runs.language),
                    description=tool.description,
                ),
            )
    return list(found.values())


def _type_of(language: Language) -> str:
    return "bash" if language == "shell" else language
