"""Reads one version of a skill, with a copy of its files: all of them as of one moment."""

from collections.abc import Iterable

from skillpouch.declarations.skill_tools import SkillTools
from skillpouch.discovery.digest import digest_of
from skillpouch.discovery.index import Index
from skillpouch.discovery.skill_copies import SkillCopies, SkillCopy
from skillpouch.discovery.skill_versions import SkillVersion
from skillpouch.discovery.tool_reading import read_tools
from skillpouch.discovery.watching.stamps import Stamps, look_at_skill
from skillpouch.errors import SkillUnreadableError
from skillpouch.problems import Problem
from skillpouch.skills import Skill
from skillpouch.tools import Binary, InlineScript, Script


class ChangingError(Exception):
    """Files of a skill changed while they were being read."""


class VersionReader:
    """Reads versions; `copies` is where their files are kept."""

    def __init__(self, index: Index, copies: SkillCopies) -> None:
        self._index = index
        self._copies = copies
        self._prepared: dict[str, SkillTools] = {}  # by the path of a SKILL.md

    def prepare(self, skills: Iterable[Skill]) -> None:
        """Read the tools of skills that will be read next: many at once cost less."""
        by_name = {skill.name: skill for skill in skills}
        read = read_tools(by_name.values(), self._index, {})
        self._prepared = {by_name[name].file: tools for name, tools in read.items()}

    def read(self, skill: Skill, noticed: tuple[Problem, ...], stamps: Stamps) -> SkillVersion:
        """Read a skill that was found after `stamps` were taken, or raise ChangingError."""
        home = str(skill.home)
        tools = self._tools(skill)
        copy, uncopied = self._copy(home) if _run_files(tools) else (None, None)
        version = SkillVersion(
            skill=skill,
            tools=tools,
            digest=_digest(skill, copy),
            noticed=noticed,
            copy=copy,
            uncopied=uncopied,
        )
        # A file that has gone has changed its folder.
        if any(stamps.get(path) != stamp for path, stamp in look_at_skill(home).items()):
            raise ChangingError(home)
        return version

    def read_changing(self, skill: Skill, noticed: tuple[Problem, ...]) -> SkillVersion:
        """Read a skill whose files do not keep still: its calls run whatever is there."""
        return SkillVersion(
            skill=skill,
            tools=self._tools(skill),
            digest="",
            noticed=noticed,
            uncopied=_not_copied(str(skill.home), "they never stop changing"),
        )

    def tidy(self) -> None:
        """Remove copies that nobody needs any more."""
        self._copies.tidy()

    def _tools(self, skill: Skill) -> SkillTools:
        found = self._prepared.pop(skill.file, None)
        return found or read_tools([skill], self._index, {})[skill.name]

    def _copy(self, home: str) -> tuple[SkillCopy | None, Problem | None]:
        try:
            return self._copies.make(home), None
        except OSError as error:
            return None, _not_copied(home, (error.strerror or str(error)).lower())


def _run_files(tools: SkillTools) -> bool:
    return any(isinstance(tool.runs, Script | InlineScript | Binary) for tool in tools.tools)


def _digest(skill: Skill, copy: SkillCopy | None) -> str:
    try:
        _ = skill.body  # read when first touched, then kept
        return digest_of(copy.folder if copy else skill.home)
    except SkillUnreadableError as error:
        raise ChangingError(error.path) from None


def _not_copied(home: str, reason: str) -> Problem:
    message = f"its calls run the files that lie there, also while they are edited: {reason}"
    return Problem(path=home, code="skill-not-copied", severity="info", message=message)
