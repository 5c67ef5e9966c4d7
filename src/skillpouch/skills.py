"""Skill: a folder with a SKILL.md; only its frontmatter is read until more is asked for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

# Read-only if a skill's folder is the workspace itself: these files decide what runs. Tools may
# write the rest.
OWN_FILES = ("scripts", "SKILL.md", "tools.json", "requirements.txt", "package.json")


class AllowedTools(tuple[str, ...]):
    """What `allowed-tools` names. `"Bash" in allowed` is true for `Bash(git:*)` and `*`, too."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return any(each in (name, "*") or each.startswith(f"{name}(") for each in self)


class EveryTool(AllowedTools):
    """The tools of a skill without `allowed-tools`: an empty tuple, but `in` is always true."""

    __slots__ = ()

    def __contains__(self, name: object) -> bool:
        return True


class SkillMetadata(NamedTuple):
    """The fields of the frontmatter; `frontmatter` keeps every key as it was written.

    A named tuple, which is cheap to make: a start with a thousand skills makes a thousand.
    """

    name: str
    description: str
    allowed: tuple[str, ...] | None = None  # `allowed-tools`; None: the skill does not say
    version: str | None = None
    license: str | None = None
    compatibility: str | None = None
    frontmatter: Mapping[str, Any] = MappingProxyType({})

    @property
    def allowed_tools(self) -> AllowedTools:
        return EveryTool() if self.allowed is None else AllowedTools(self.allowed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptMetadata:
    """A script that is a tool. `path` is relative to the skill's folder."""

    name: str
    path: Path
    script_type: str
    description: str


class SkillContents(Protocol):
    """Reads the files of a skill at their first use."""

    def body(self, skill: "Skill") -> str: ...
    def digest(self, skill: "Skill") -> str: ...
    def scripts(self, skill: "Skill") -> Iterable[ScriptMetadata]: ...


@dataclass(frozen=True, kw_only=True)
class Skill:
    """One skill, found and identified; its files are read when they are asked for.

    `name` is its identity (`plugin:skill` inside a plugin); `metadata.name` is what its author
    wrote. `degraded` means that the frontmatter is not valid YAML and was read line by line, or
    that the description comes from the body.
    """

    name: str
    description: str
    file: str  # the path of its SKILL.md
    source: str  # the root it was found under
    metadata: SkillMetadata
    degraded: bool = False
    declarations_lost: bool = False
    contents: SkillContents | None = field(default=None, repr=False, compare=False)

    @cached_property
    def home(self) -> Path:
        return Path(self.file).parent

    @cached_property
    def body(self) -> str:
        """The instructions, without frontmatter. Read when first asked for."""
        return self._contents.body(self)

    @cached_property
    def digest(self) -> str:
        """A hash over every file of the skill: names, modes and contents."""
        return self._contents.digest(self)

    @cached_property
    def detected_scripts(self) -> list[ScriptMetadata]:
        """The scripts below `scripts/` that are tools."""
        return list(self._contents.scripts(self))

    @property
    def _contents(self) -> SkillContents:
        assert self.contents is not None, "whoever finds a skill says how its files are read"
        return self.contents
