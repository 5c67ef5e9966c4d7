"""Reads SKILL.md: frontmatter and body, name, description, allowed tools."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Any

from skillpouch.declarations.frontmatter import (
    Cut,
    Frontmatter,
    cut,
    has_whole_head,
    read_frontmatter,
)
from skillpouch.errors import SkillUnreadableError
from skillpouch.problems import Problem
from skillpouch.skills import SkillMetadata
from skillpouch.text import clean
from skillpouch.untrusted_files import CannotReadError, Stamp, read_head, read_skill_text


def parse_allowed_tools(value: Any) -> tuple[str, ...] | None:
    """Return the items of `allowed-tools`, None if it is missing. `Bash(git log:*)` is one item."""
    if value is None:
        return None
    if isinstance(value, list):
        return tuple(item for part in value for item in _split(str(part)))
    return tuple(_split(value)) if isinstance(value, str) else None


def _split(text: str) -> list[str]:
    if "(" not in text:
        return text.replace(",", " ").split()
    items: list[str] = []
    item, depth = "", 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth <= 0 and (character.isspace() or character == ","):
            items.append(item)
            item, depth = "", 0
        else:
            item += character
    return [found for found in (*items, item) if found]


def is_bash(item: str) -> bool:
    """Tell whether an item of `allowed-tools` lets scripts run."""
    return item == "Bash" or item.startswith("Bash(") or item == "*"


FIELDS = frozenset(("name", "description", "license", "compatibility", "metadata", "allowed-tools"))
# Skillpouch reads two fields that Agent Skills does not have.
_KNOWN = FIELDS | {"version", "tools"}
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_SAFE_NAME = re.compile(r"[\w-]{1,64}\Z")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_LONGEST_NAME = 64
_LONGEST_DESCRIPTION = 1024
_LONGEST_COMPATIBILITY = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    """A SKILL.md that could be read, with the problems in it."""

    name: str  # usable in ids: what the author wrote, or a slug of it
    metadata: SkillMetadata
    stamp: Stamp
    degraded: bool
    declarations_lost: bool
    problems: tuple[Problem, ...]


def read_skill_md(path: str, folder: str) -> SkillFile:
    """Read the frontmatter of a SKILL.md in a folder named `folder`, or raise CannotReadError."""
    content = read_head(path)
    if not content.whole and not has_whole_head(content.data):
        content = read_skill_text(path)
    raw = content.data
    if b"\0" in raw:
        encoding = " (UTF-16? save it as UTF-8)" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise CannotReadError("nul-bytes", f"it holds NUL bytes, so it is not text{encoding}")
    if not raw.strip():
        raise CannotReadError("empty", "the file is empty")
    parts = cut(raw)
    front = read_frontmatter(path, raw, parts)
    metadata, from_body = _metadata(path, folder, parts, front)
    return SkillFile(
        name=_identity(metadata.name, folder),
        metadata=metadata,
        stamp=content.stamp,
        degraded=front.scavenged or from_body,
        declarations_lost=front.scavenged,
        problems=tuple(front.problems),
    )


def read_body(path: str) -> str:
    """Return the instructions of a SKILL.md, without its frontmatter."""
    try:
        return cut(read_skill_text(path).data).body
    except CannotReadError as error:
        raise SkillUnreadableError(path, error.reason) from None


def _metadata(path: str, folder: str, parts: Cut, front: Frontmatter) -> tuple[SkillMetadata, bool]:
    _fold_keys(path, front)
    values = front.values
    _lift_from_metadata(path, front)
    name = _text(values.get("name")) or folder
    description = _text(values.get("description"))
    from_body = not description
    if from_body:
        description = _description_from_body(parts, damaged=front.scavenged)
        if not description:
            raise CannotReadError("no-text", "it has neither a description nor any text")
        if parts.front is not None:
            message = "no description: taken from the body"
            front.report(path, "description-missing", "warning", message, 1)
    allowed = values.get("allowed-tools", values.get("allowed_tools"))
    metadata = SkillMetadata(
        name=clean(name),
        description=clean(description),
        allowed=parse_allowed_tools(allowed),
        version=_version(values),
        license=_text(values.get("license")) or None,
        compatibility=_text(values.get("compatibility")) or None,
        frontmatter=values,
    )
    _check_rules(path, folder, metadata, front)
    return metadata, from_body


def _fold_keys(path: str, front: Frontmatter) -> None:
    """Treat `Name:` as `name:` if there is no `name:`, and report it."""
    for key in [key for key in front.values if key not in _KNOWN and key.lower() in _KNOWN]:
        right = key.lower()
        if right not in front.values:
            front.values[right] = front.values.pop(key)
            line = front.lines.get(key)
            front.lines[right] = line or 1
            message = f"{key!r} taken for {right!r}: keys are lower case"
            front.report(path, "key-case", "warning", message, line)


def _lift_from_metadata(path: str, front: Frontmatter) -> None:
    nested = front.values.get("metadata")
    if not isinstance(nested, dict):
        return
    for key in ("name", "description"):
        if not _text(front.values.get(key)) and _text(nested.get(key)):
            front.values[key] = nested[key]
            message = f"{key!r} taken from `metadata`: it belongs at the top"
            front.report(path, "key-nested", "warning", message, front.lines.get("metadata"))


def _version(values: dict[str, Any]) -> str | None:
    nested = values.get("metadata")
    inner = nested.get("version") if isinstance(nested, dict) else None
    return _text(values.get("version")) or _text(inner) or None


def _text(value: Any) -> str:
    """Return a scalar or a list of scalars as text, "" for anything else."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bool) or value is None:
        return ""
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list):
        return " ".join(part for part in map(_text, value) if part)
    return ""


# Lines that are no prose: tables, comments, rules, images, HTML.
_NO_PROSE = ("|", "<", "---", "===", "***", "___", "![")


def _description_from_body(parts: Cut, *, damaged: bool) -> str:
    """Return the first prose paragraph, else the first heading, else the first words of any kind.

    A paragraph ends at a blank line, a heading, code or a table: many texts have no blank lines.
    """
    text = parts.body
    if damaged and not text.strip():
        text = parts.front or ""  # damaged frontmatter is the only text of this file
    text = _COMMENT.sub("", text)
    paragraph: list[str] = []
    heading, fenced = "", False
    for line in map(str.strip, text.split("\n")):
        is_fence = line.startswith(("```", "~~~"))
        fenced ^= is_fence
        if line.startswith("#") and not fenced:
            heading = heading or line.lstrip("#").strip()
        if not line or fenced or is_fence or line.startswith(("#", *_NO_PROSE)):
            if paragraph:
                break
        else:
            paragraph.append(line)
    described = " ".join(" ".join(paragraph).split()) or heading or _first_words(text)
    return described[:_LONGEST_DESCRIPTION]


def _first_words(text: str) -> str:
    """Return the first line of a table, of code or of HTML that has a letter in it."""
    lines = (line.strip("|` \t") for line in text.split("\n"))
    return next((line for line in lines if any(map(str.isalpha, line))), "")


def _identity(name: str, folder: str) -> str:
    if _SAFE_NAME.match(name):
        return name
    return _slug(name) or _slug(folder) or "skill"


def _slug(name: str) -> str:
    folded = unicodedata.normalize("NFKC", name).lower()
    return re.sub(r"[^\w]+", "-", folded).strip("-")[:_LONGEST_NAME].strip("-")


def _check_rules(path: str, folder: str, metadata: SkillMetadata, front: Frontmatter) -> None:
    name = metadata.name
    if not (_NAME.match(name) and len(name) <= _LONGEST_NAME):
        message = f"name {name!r} is not 1-64 lower-case letters, digits and single hyphens"
        front.report(path, "name-invalid", "warning", message, front.lines.get("name"))
    if name != folder and "name" in front.values:
        message = f"name {name!r} differs from its folder {folder!r}"
        front.report(path, "name-differs", "warning", message, front.lines.get("name"))
    if len(metadata.description) > _LONGEST_DESCRIPTION:
        message = f"description of {len(metadata.description):,} characters, more than 1,024"
        front.report(path, "description-long", "warning", message, front.lines.get("description"))
    if len(metadata.compatibility or "") > _LONGEST_COMPATIBILITY:
        message = "compatibility is longer than 500 characters"
        front.report(
            path, "compatibility-long", "warning", message, front.lines.get("compatibility")
        )
    unknown = [key for key in front.values if key not in _KNOWN]
    if unknown:
        message = f"fields that Agent Skills does not define: {', '.join(unknown[:12])}"
        front.report(path, "field-unknown", "info", message, front.lines.get(unknown[0]))
