"""One version of a skill: what it says, its tools, and a copy of the files that they run."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillpouch.problems import Problem
from skillpouch.skills import Skill

if TYPE_CHECKING:
    from skillpouch.declarations.skill_tools import SkillTools
    from skillpouch.discovery.skill_copies import SkillCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillVersion:
    """A skill as it was when all its files were still. Its body has been read.

    `noticed` is what was found about its SKILL.md. Without a `copy`, calls run what lies in the
    folder of the skill; `uncopied` says why, if they would better not.
    """

    skill: Skill
    tools: "SkillTools"
    digest: str
    noticed: tuple[Problem, ...] = ()
    copy: "SkillCopy | None" = None
    uncopied: Problem | None = None

    @property
    def problems(self) -> tuple[Problem, ...]:
        return (*self.noticed, *self.tools.problems)
