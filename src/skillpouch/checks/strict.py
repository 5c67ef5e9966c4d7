"""What another Agent Skills or Skill Tools runtime would reject though Skillpouch loads it."""

import unicodedata
from collections.abc import Iterator
from pathlib import PurePosixPath

from skillpouch.checks.strict_frontmatter import (
    Fields,
    FrontmatterRefusedError,
    Value,
    cut,
    misplaced_fences,
    read_fields,
)
from skillpouch.checks.strict_tools import tools_json_problems
from skillpouch.problems import Problem

__all__ = ["skill_md_problems", "tools_json_problems"]

_FILE_NAMES = ("SKILL.md", "skill.md")
_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_NAME_MAX = 64
_DESCRIPTION_MAX = 1024
_COMPATIBILITY_MAX = 500
# Normalising makes a name at most four times shorter, and takes long on long hostile ones.
_NAME_MAX_TO_NORMALISE = 4 * _NAME_MAX

_Finding = tuple[str, str, int | None]  # code, message, line


def skill_md_problems(path: str, raw: bytes, directory: str) -> list[Problem]:
    """Give what the Agent Skills reference validator refuses in a SKILL.md in `directory`."""
    found: list[_Finding] = []
    if PurePosixPath(path).name not in _FILE_NAMES:
        found.append(("strict-file-name", "the file must be called 'SKILL.md'", None))
    found += _content_findings(raw, PurePosixPath(directory).name)
    return [
        Problem(path=path, code=code, severity="warning", message=message, line=line)
        for code, message, line in found
    ]


def _content_findings(raw: bytes, directory: str) -> Iterator[_Finding]:
    try:
        text = raw.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
        block = cut(text)
        for line in misplaced_fences(text, block):
            message = "'---' shares its line with other text: not every runtime sees it there"
            yield "strict-frontmatter", message, line
        yield from _field_findings(read_fields(block), directory)
    except UnicodeDecodeError as error:
        yield "strict-encoding", "not valid UTF-8", 1 + raw.count(b"\n", 0, error.start)
    except FrontmatterRefusedError as refusal:
        yield refusal.code, refusal.message, refusal.line


def _field_findings(fields: Fields, directory: str) -> Iterator[_Finding]:
    for key, (line, _) in fields.items():
        if key not in _FIELDS:
            message = f"unexpected field {key[:_NAME_MAX]!r}: move it under 'metadata'"
            yield "strict-unexpected-field", message, line
    for key in ("name", "description"):
        if key not in fields:
            yield f"strict-{key}", f"the field '{key}' is missing", 1
    for key, (line, value) in fields.items():
        for message in _faults(key, value, directory):
            yield f"strict-{key}", message, line


def _faults(key: str, value: Value, directory: str) -> Iterator[str]:
    match key:
        case "name":
            yield from _name_faults(value, directory)
        case "description":
            yield from _text_faults(key, value, _DESCRIPTION_MAX)
        case "compatibility" if value != "":  # the reference lets an empty one pass
            yield from _text_faults(key, value, _COMPATIBILITY_MAX)
        case "allowed-tools" if not _is_text_or_texts(value):
            yield "'allowed-tools' must be text or a list of texts"
        case _:
            return


def _text_faults(key: str, value: Value, longest: int) -> Iterator[str]:
    if not isinstance(value, str) or not value.strip():
        yield f"'{key}' must be text that is not empty"
    elif len(value) > longest:
        yield f"'{key}' has {len(value):,} characters; {longest:,} are allowed"


def _is_text_or_texts(value: Value) -> bool:
    items = value if isinstance(value, list) else [value]
    return all(isinstance(item, str) for item in items)


def _name_faults(value: Value, directory: str) -> Iterator[str]:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= _NAME_MAX_TO_NORMALISE:
        yield from _text_faults("name", value, _NAME_MAX)
        return
    name = unicodedata.normalize("NFKC", value.strip())
    if len(name) > _NAME_MAX:
        yield f"the name has {len(name)} characters; {_NAME_MAX} are allowed"
    if name != name.lower():
        yield f"the name {name!r} must be in lower case"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield f"the name {name!r} must not start or end with '-', nor contain '--'"
    if not name.replace("-", "a").isalnum():
        yield f"the name {name!r} may hold only letters, digits and '-'"
    if name != unicodedata.normalize("NFKC", directory[:_NAME_MAX_TO_NORMALISE]):
        yield f"the name {name!r} must be that of its directory, {directory!r}"
