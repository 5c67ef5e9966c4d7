"""ActiveSkills: the skills that were passed as text and are in use, and their tools."""

import re
import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from unicodedata import normalize

from skillpouch.declarations.frontmatter import cut, read_frontmatter
from skillpouch.discovery.digest import SKILL_FILES
from skillpouch.discovery.text_skills.folders import (
    Files,
    Forget,
    SkillNameError,
    SkillTextError,
    TextSkillFolder,
    hold,
    is_text_home,
    keep,
    let_go,
)
from skillpouch.problems import Problem
from skillpouch.registry.registry import ToolOverlay
from skillpouch.skills import Skill
from skillpouch.tools import SkillTools, Tool
from skillpouch.untrusted_files import SKILL_FILE_BYTES, CannotReadError

_NAME = re.compile(r"(?:[\w-]{1,64}:)?[\w-]{1,64}\Z")
# Problems of the folder's name, which the author of the text did not choose.
_OF_THE_FOLDER = frozenset(("name-differs",))


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSkill:
    """A skill, its tools, and the problems in both."""

    skill: Skill
    read: SkillTools
    problems: tuple[Problem, ...]


def check_name(name: str) -> str:
    """Return the normalized name of a skill; raise SkillNameError if it is not allowed."""
    composed = normalize("NFC", name)
    if not _NAME.match(composed):
        raise SkillNameError(name)
    return composed


def check_text(name: str, text: str) -> str:
    """Return the text; raise SkillTextError if it is too long or cannot be encoded as UTF-8."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise SkillTextError(name, f"not text: {error.reason}") from None
    if size > SKILL_FILE_BYTES:
        raise SkillTextError(name, f"{size:,} bytes are more than the {SKILL_FILE_BYTES:,} allowed")
    return text


def name_in(text: str, used_as: str = "") -> str:
    """Return the `name` of a SKILL.md; `used_as` is its name in errors."""
    raw = check_text(used_as, text).encode()
    written = read_frontmatter("SKILL.md", raw, cut(raw)).values.get("name")
    if not isinstance(written, str) or not written.strip():
        raise SkillTextError(used_as, "it has no `name`")
    return check_name(written.strip())


# Cached, because many sessions use the same text. The name of the folder is a hash of its content,
# so what was read never becomes wrong.
@lru_cache(maxsize=256)
def read_text_skill(home: Path, name: str) -> TextSkill:
    """Read a skill whose folder is named by a hash of its content; the result is cached."""
    return read_skill_in(home, name)


def read_skill_in(home: Path, name: str) -> TextSkill:
    """Read the skill in a folder; raise SkillTextError if none of its tools can be read."""
    path = f"{home}/SKILL.md"
    # Imported here, so that an executor without texts does not load their readers.
    from skillpouch.declarations.skill_md import read_skill_md
    from skillpouch.declarations.skill_tools import read_skill_tools

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
        contents=SKILL_FILES,
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
    message = f"name {written!r} differs from the name it is used under, {name!r}"
    return [Problem(path=path, code="name-differs", severity="warning", message=message)]


_MOST_TRIES = 8  # to find a tool while other threads replace its skill


@dataclass(frozen=True, slots=True)
class _Active:
    kept: TextSkillFolder
    text: "TextSkill"


class ActiveSkills:
    """Skills by name that add their tools to those of one executor.

    `forget` is called with the home of a skill when this process no longer uses it.
    """

    def __init__(self, added: ToolOverlay, forget: Forget = lambda _: None) -> None:
        self.added = added
        self._forget = forget
        self._active: dict[str, _Active] = {}
        self._changing = threading.RLock()
        # Not a method: a finalizer that referred to this object would keep it alive.
        self._finalizer = weakref.finalize(self, _let_all_go, self._active, forget)

    def use(self, name: str, text: str) -> list[str]:
        """Add the tools of a SKILL.md under a name; return their wire names.

        Adding the same text again changes nothing; another text replaces the earlier one.
        """
        # Here and below, so that an executor without texts does not load what reads them.

        name_in(text, used_as=name)  # raises for a text without a name of its own
        return self.use_files(name, {"SKILL.md": text})

    def use_files(self, name: str, files: Files) -> list[str]:
        """Do what `use` does with all the files of a skill."""
        name = check_name(name)
        kept = keep(files, name)
        try:
            text = read_text_skill(kept.home, name)
        except BaseException:
            let_go(kept)
            raise
        with self._changing:
            earlier = self._active.get(name)
            if earlier is not None and earlier.kept == kept:
                let_go(kept)
                return [tool.name for tool in self.added.tools_of(name)]
            self._active[name] = _Active(kept, text)
            names = self.added.put(name, text.read.tools)
        self._end(earlier)
        return names

    def remove(self, name: str) -> list[str]:
        """Remove a skill and its tools; return the names that were removed."""
        with self._changing:
            active = self._active.pop(name, None)
            names = self.added.drop(name) if active is not None else []
        self._end(active)
        return names

    def remove_tools(self, names: Iterable[str]) -> list[str]:
        """Remove single tools, by any of their names; return the wire names they had."""
        removed = []
        for name in names:
            with self._changing:
                tool = self.added.owner_of(name)
                if tool is None or tool.skill not in self._active:
                    continue
                removed.append(tool.name)
                if not self.added.drop_tool(tool):
                    self.remove(tool.skill)
        return removed

    def hold(self, name: str, tool: Tool) -> tuple[Tool, TextSkillFolder | None]:
        """Keep the folder of a tool until `let_go` is called at the end of the call.

        `tool` was found by `name`; if its folder is already gone, the name is looked up again and
        may return another tool. Without a folder of a text, nothing has to be kept: None.
        """
        for _ in range(_MOST_TRIES):
            kept = hold(tool.home) if is_text_home(tool.home) else None
            if kept is not None or not is_text_home(tool.home):
                return tool, kept
            # Its folder was removed after the look-up: now another tool may have the name, or none.
            tool = self.added.get(name)
        return tool, None

    def let_go(self, kept: TextSkillFolder) -> None:
        """Release what `hold` returned, at the end of the call."""
        let_go(kept, self._forget)

    def key_of(self, name: str) -> str:
        """Return a key that changes with the text of a skill; "" if the skill is not in use."""
        active = self._active.get(name)
        return active.kept.key if active is not None else ""

    def names(self) -> list[str]:
        """Return the skills in the order in which they were first used."""
        return list(self._active)

    def problems(self, name: str | None = None) -> list[Problem]:
        """Return the problems in all skills that are in use, or in one of them."""
        active = dict(self._active)
        chosen = active.values() if name is None else filter(None, [active.get(name)])
        return [problem for each in chosen for problem in each.text.problems]

    def close(self) -> None:
        """Remove all skills."""
        for name in self.names():
            self.remove(name)

    def _end(self, active: _Active | None) -> None:
        if active is not None:
            let_go(active.kept, self._forget)


def _let_all_go(active: dict[str, _Active], forget: Forget) -> None:
    while active:
        let_go(active.popitem()[1].kept, forget)
