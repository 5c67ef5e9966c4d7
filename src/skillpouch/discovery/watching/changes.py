"""What a listener is told: which skills and tools came, changed and went, and what is wrong."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from skillpouch.discovery.skill_versions import SkillVersion
from skillpouch.problems import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names of skills and ids of tools."""

    skills: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.skills or self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What one batch of edits changed. False when nothing did.

    A tool has changed when any file of its skill has. `problems` are all that keep the newest
    files from being served, until they are mended.
    """

    added: Names = field(default_factory=Names)
    changed: Names = field(default_factory=Names)
    removed: Names = field(default_factory=Names)
    problems: tuple[Problem, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


def changes_between(
    before: Mapping[str, SkillVersion],
    after: Mapping[str, SkillVersion],
    problems: tuple[Problem, ...] = (),
) -> Changes:
    """Compare what was served with what is, skill by skill."""
    differing = {name for name in before.keys() & after.keys() if before[name] is not after[name]}
    old = _tools(before, before.keys() - after.keys() | differing)
    new = _tools(after, after.keys() - before.keys() | differing)
    return Changes(
        added=_names([n for n in after if n not in before], [t for t in new if t not in old]),
        changed=_names([n for n in after if n in differing], [t for t in new if t in old]),
        removed=_names([n for n in before if n not in after], [t for t in old if t not in new]),
        problems=problems,
    )


def _names(skills: list[str], tools: list[str]) -> Names:
    return Names(skills=tuple(skills), tools=tuple(tools))


def _tools(versions: Mapping[str, SkillVersion], names: set[str]) -> dict[str, None]:
    """Return the ids of the tools of some skills, in order and quickly found."""
    chosen = (version for name, version in versions.items() if name in names)
    return {tool.id: None for version in chosen for tool in version.tools.tools}
