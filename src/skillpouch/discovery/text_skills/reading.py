"""A skill in a folder of ours becomes tools, under the name that its user gave it."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from unicodedata import normalize

from skillpouch.declarations.frontmatter import cut, read_frontmatter
from skillpouch.declarations.skill_md import read_skill_md
from skillpouch.declarations.skill_tools import SkillTools, read_skill_tools
from skillpouch.discovery.text_skills.errors import SkillNameError, SkillTextError
from skillpouch.problems import Problem
from skillpouch.skills import Skill
from skillpouch.untrusted_files import SKILL_FILE_BYTES, CannotReadError

_NAME = re.compile(r"(?:[\w-]{1,64}:)?[\w-]{1,64}\Z")
# What is said of a folder that its author never saw.
_OF_THE_FOLDER = frozenset(("name-differs",))


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSkill:
    """A skill and its tools, and everything worth saying about both."""

    skill: Skill
    read: SkillTools
    problems: tuple[Problem, ...]


def check_name(name: str) -> str:
    """Return the name of a skill in its one form; raise SkillNameError when it is none."""
    composed = normalize("NFC", name)
    if not _NAME.match(composed):
        raise SkillNameError(name)
    return composed


def check_text(name: str, text: str) -> str:
    """Return a text that can be written down; raise SkillTextError when it cannot."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise SkillTextError(name, f"not text: {error.reason}") from None
    if size > SKILL_FILE_BYTES:
        raise SkillTextError(name, f"{size:,} bytes are more than the {SKILL_FILE_BYTES:,} allowed")
    return text


def name_in(text: str, used_as: str = "") -> str:
    """Return the name that a SKILL.md gives itself; `used_as` is what its user calls it."""
    raw = check_text(used_as, text).encode()
    written = read_frontmatter("SKILL.md", raw, cut(raw)).values.get("name")
    if not isinstance(written, str) or not written.strip():
        raise SkillTextError(used_as, "it has no `name`")
    return check_name(written.strip())


# Many sessions use the same text. A folder is made of its content, so what was read stays true.
@lru_cache(maxsize=256)
def read_text_skill(home: Path, name: str) -> TextSkill:
    """Read a skill whose folder is made of its content; what was read once is read no more."""
    return read_skill_in(home, name)


def read_skill_in(home: Path, name: str) -> TextSkill:
    """Read the skill in a folder; raise SkillTextError when nothing of it can be used."""
    path = f"{home}/SKILL.md"
    try:
        file = read_skill_md(path, home.name)
    except CannotReadError as error:
        raise SkillTextError(name, error.reason) from None
    skill = Skill(
        name=name,
        description=file.metadata.description,
        file=path,
        source=str(home),
        metadata=file.metadata,
        degraded=file.degraded,
        declarations_lost=file.declarations_lost,
    )
    read = read_skill_tools(skill)
    noticed = [p for p in (*file.problems, *read.problems) if p.code not in _OF_THE_FOLDER]
    problems = (*noticed, *_differing(path, name, file.metadata.name))
    lost = [problem for problem in problems if problem.severity == "error"]
    if lost and not read.tools:
        raise SkillTextError(name, "none of its tools can be read", lost)
    return TextSkill(skill=skill, read=read, problems=problems)


def _differing(path: str, name: str, written: str) -> list[Problem]:
    if written == name.rpartition(":")[2]:
        return []
    message = f"name {written!r} differs from the one it is used by, {name!r}"
    return [Problem(path=path, code="name-differs", severity="warning", message=message)]
